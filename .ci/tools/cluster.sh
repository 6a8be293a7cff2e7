#!/usr/bin/env bash
# Runs a command beside a Kubernetes cluster of one node: `cluster.sh npm run test:cluster`.
# etcd, API server, controllers, scheduler and kubelet of this machine over a containerd of its own; all of it is stopped at the end.
# `cluster.sh --build` only brings the programs: Kubernetes is built from its sources, which takes some ten minutes the first time.
# Where it cannot run it says so and runs the command all the same: the suites that want a cluster then skip, loudly.
set -u

tools=${AUDITFERRY_TOOLS:-$HOME/.cache/auditferry-tools}
bin=$tools/kubernetes
version=v1.34.4
run=
pids=()

as_it_is() {
  printf 'SKIPPED: %s; the suites that want a cluster say so\n' "$1"
  shift
  [ $# -gt 0 ] || exit 0
  "$@"
  exit
}

# until_true <seconds> <command …>
until_true() {
  local end=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$end" ] || return 1
    sleep 0.2
  done
}

built() {
  local programs=(kube-apiserver kube-controller-manager kube-scheduler kubelet kubectl) program commands=() fresh names minor
  [ "$(cat "$bin/version" 2>/dev/null)" = "$version" ] && return 0
  command -v go >/dev/null || return 1
  mkdir -p "$bin" || return 1
  fresh=$(mktemp -d "$bin/.build.XXXXXX") || return 1
  for program in "${programs[@]}"; do commands+=("k8s.io/kubernetes/cmd/$program"); done
  minor=${version#v1.}
  minor=${minor%%.*}
  names=$version
  printf 'module auditferry/tools/kubernetes\n\ngo 1.24.0\n' >"$fresh/go.mod"
  (
    cd "$fresh" || exit 1
    export GOFLAGS=-mod=mod
    sources=$(go mod download -json "k8s.io/kubernetes@$version" | sed -n 's/^\s*"GoMod": "\(.*\)",\?$/\1/p')
    [ -n "$sources" ] || exit 1
    # Its own parts are published as modules beside it, one version behind the name.
    sed -nE "s#^\s*(k8s.io/\S+) => ./staging/.*#replace \1 => \1 v0.${version#v1.}#p" "$sources" >>go.mod
    go get "${commands[@]/%/@$version}" || exit 1
    v=k8s.io/component-base/version
    nice -n 19 go build -p 2 -ldflags "-s -w -X $v.gitVersion=$names -X $v.gitMajor=1 -X $v.gitMinor=$minor" -o out/ "${commands[@]}"
  ) || { rm -rf "$fresh"; return 1; }
  mv -f "$fresh"/out/* "$bin/" && rm -rf "$fresh" && echo "$version" >"$bin/version"
}

[ $# -gt 0 ] || { echo 'usage: cluster.sh --build | <command …>' >&2; exit 2; }
if [ "$1" = --build ]; then
  built || as_it_is 'Kubernetes could not be built'
  printf 'Kubernetes %s in %s\n' "$version" "$bin"
  exit 0
fi
