# Sourced by the scripts here that bring a program: what is said where it cannot be had, and how it is had as root or from Go.
# shellcheck shell=bash

# without <why>: what is not there is no fault here; the suite or check that wants it then skips, loudly.
without() {
  printf 'SKIPPED: %s; what needs it says so\n' "$1"
  exit 0
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

# built_from_go <folder> <program> <package@version> [the name it is built under]: what is there stays.
built_from_go() {
  local folder=$1 program=$2 package=$3 name=${4:-$2}
  [ -x "$folder/$program" ] && return 0
  command -v go >/dev/null || without "there is no Go, $program is not built"
  mkdir -p "$folder" || without "$folder cannot be made"
  # Built beside the rest, and moved once it is whole.
  fresh=$(mktemp -d "$folder/.$program.XXXXXX") || without "nothing can be made in $folder"
  trap 'rm -rf "$fresh"' EXIT
  { GOBIN=$fresh GOFLAGS=-mod=mod go install "$package" && mv "$fresh/$name" "$folder/$program"; } ||
    without "$program could not be built"
}
