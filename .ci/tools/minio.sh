#!/usr/bin/env bash
# Builds MinIO, for `npm run test:minio` alone: encryption at the server. Takes minutes and some 3 GB of module cache, so no gate runs it.
# May be run again: what is there stays. Exits 1 where it cannot be had.
set -eu

bin=${AUDITFERRY_TOOLS:-$HOME/.cache/auditferry-tools}/bin
# No tagged version is in the module proxy.
version=v0.0.0-20260212201848-7aac2a2c5b7c

if [ ! -x "$bin/minio" ]; then
  command -v go >/dev/null || { echo 'there is no Go: MinIO cannot be built' >&2; exit 1; }
  mkdir -p "$bin"
  fresh=$(mktemp -d "$bin/.minio.XXXXXX")
  trap 'rm -rf "$fresh"' EXIT
  GOBIN=$fresh GOFLAGS=-mod=mod go install "github.com/minio/minio@$version"
  mv "$fresh/minio" "$bin/minio"
fi
printf 'minio in %s\n' "$bin/minio"
