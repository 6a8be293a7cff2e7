#!/usr/bin/env bash
# Brings toxiproxy, through which test/integration/network-faults.test.ts sends: latency, resets, cuts, slow lines, refusals.
# May be run again: what is there stays. Where it cannot be had it says so and exits 0: the suite then skips, loudly.
set -u

bin=${AUDITFERRY_TOOLS:-$HOME/.cache/auditferry-tools}/bin
version=v2.5.0

without() {
  printf 'SKIPPED: %s; the suite that needs it says so\n' "$1"
  exit 0
}

if [ ! -x "$bin/toxiproxy-server" ]; then
  command -v go >/dev/null || without 'there is no Go, toxiproxy is not built'
  mkdir -p "$bin" || without "$bin cannot be made"
  # Built under its own name beside the rest, and moved once it is whole.
  fresh=$(mktemp -d "$bin/.toxiproxy.XXXXXX")
  trap 'rm -rf "$fresh"' EXIT
  GOBIN=$fresh GOFLAGS=-mod=mod go install "github.com/Shopify/toxiproxy/v2/cmd/server@$version" ||
    without 'toxiproxy could not be built'
  mv "$fresh/server" "$bin/toxiproxy-server"
fi
printf 'toxiproxy in %s\n' "$bin/toxiproxy-server"
