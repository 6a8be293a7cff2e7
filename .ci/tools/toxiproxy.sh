#!/usr/bin/env bash
# Brings toxiproxy, through which test/integration/network-faults.test.ts sends and replicas reach their database: latency, resets, cuts, slow lines, refusals.
# May be run again: what is there stays. Where it cannot be had it says so and exits 0: the suite then skips, loudly.
set -u
# shellcheck source=.ci/tools/bringing.sh
. "$(dirname "$0")/bringing.sh" || exit 1

bin=${AUDITFERRY_TOOLS:-$HOME/.cache/auditferry-tools}/bin
version=v2.5.0

built_from_go "$bin" toxiproxy-server "github.com/Shopify/toxiproxy/v2/cmd/server@$version" server
printf 'toxiproxy in %s\n' "$bin/toxiproxy-server"
