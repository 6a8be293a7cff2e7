#!/usr/bin/env bash
# Brings versitygw, the S3 server that test/integration/s3.test.ts and the network faults store into.
# May be run again: what is there stays. Where it cannot be had it says so and exits 0: the suites then skip, loudly.
set -u

bin=${AUDITFERRY_TOOLS:-$HOME/.cache/auditferry-tools}/bin
version=v1.8.0

without() {
  printf 'SKIPPED: %s; the suites that need it say so\n' "$1"
  exit 0
}

if [ ! -x "$bin/versitygw" ]; then
  command -v go >/dev/null || without 'there is no Go, versitygw is not built'
  mkdir -p "$bin" || without "$bin cannot be made"
  # Built beside the rest, and moved once it is whole.
  fresh=$(mktemp -d "$bin/.versitygw.XXXXXX")
  trap 'rm -rf "$fresh"' EXIT
  GOBIN=$fresh GOFLAGS=-mod=mod go install "github.com/versity/versitygw/cmd/versitygw@$version" ||
    without 'versitygw could not be built'
  mv "$fresh/versitygw" "$bin/versitygw"
fi
printf 'versitygw in %s\n' "$bin/versitygw"
