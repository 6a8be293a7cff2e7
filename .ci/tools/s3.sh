#!/usr/bin/env bash
# Brings versitygw, the S3 server that test/integration/s3.test.ts, the network faults and the replicas store into.
# May be run again: what is there stays. Where it cannot be had it says so and exits 0: the suites then skip, loudly.
set -u
# shellcheck source=.ci/tools/bringing.sh
. "$(dirname "$0")/bringing.sh" || exit 1

bin=${AUDITFERRY_TOOLS:-$HOME/.cache/auditferry-tools}/bin
version=v1.8.0

built_from_go "$bin" versitygw "github.com/versity/versitygw/cmd/versitygw@$version"
printf 'versitygw in %s\n' "$bin/versitygw"
