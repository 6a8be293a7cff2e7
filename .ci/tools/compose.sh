#!/usr/bin/env bash
# Brings docker-compose, with which config/docker-compose.yaml is checked and run. May be run again: what is there stays.
# Where it cannot be had it says so and exits 0: the suite then skips, loudly.
set -u
# shellcheck source=.ci/tools/bringing.sh
. "$(dirname "$0")/bringing.sh" || exit 1

bin=${AUDITFERRY_TOOLS:-$HOME/.cache/auditferry-tools}/bin
version=v2.40.3

if [ "$(cat "$bin/.docker-compose.version" 2>/dev/null)" != "$version" ]; then
  command -v go >/dev/null || without 'there is no Go, docker-compose is not built'
  mkdir -p "$bin" || without "$bin cannot be made"
  # Its go.mod has replacements, so it is no command to install: a module of our own requires it.
  fresh=$(mktemp -d "$bin/.docker-compose.XXXXXX")
  trap 'rm -rf "$fresh"' EXIT
  cat >"$fresh/go.mod" <<END
module auditferry/tools/compose

go 1.24.0

tool github.com/docker/compose/v2/cmd

require github.com/docker/compose/v2 $version
END
  (cd "$fresh" && export GOFLAGS=-mod=mod && go mod tidy && nice -n 19 go build -ldflags "-s -w -X github.com/docker/compose/v2/internal.Version=$version" -o docker-compose github.com/docker/compose/v2/cmd) ||
    without 'docker-compose could not be built'
  mv "$fresh/docker-compose" "$bin/docker-compose" && echo "$version" >"$bin/.docker-compose.version"
fi
printf 'docker-compose in %s\n' "$bin/docker-compose"
