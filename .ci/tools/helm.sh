#!/usr/bin/env bash
# Brings what `npm run test:chart` holds the chart against: Helm 3 and 4, helm-unittest, kubeconform, helm-docs, and the schemas of
# Kubernetes and of the Prometheus operator. May be run again: what is there stays.
# Where something cannot be had it says so and exits 0: the checks then skip, loudly.
set -u
# shellcheck source=.ci/tools/bringing.sh
. "$(dirname "$0")/bringing.sh" || exit 1

tools=${AUDITFERRY_TOOLS:-$HOME/.cache/auditferry-tools}
bin=$tools/bin
export GOFLAGS=-mod=mod

helm3=v3.22.0
helm4=v4.3.1
unittest=v1.1.2
kubeconform=v0.8.0
helm_docs=v1.14.2
# The oldest Kubernetes that the chart promises, and the one that the cluster of cluster.sh runs.
kubernetes='v1.27.16 v1.34.4'
operator=v0.85.0

# built <program> <version> <command that makes it in $fresh>: under its version, so that another one is built anew.
built() {
  local program=$1 version=$2
  shift 2
  [ "$(cat "$bin/.$program.version" 2>/dev/null)" = "$version" ] && [ -x "$bin/$program" ] && return 0
  fresh=$(mktemp -d "$bin/.$program.XXXXXX") || return 1
  if "$@" && mv "$fresh/$program" "$bin/$program"; then
    echo "$version" >"$bin/.$program.version"
    rm -rf "$fresh"
    return 0
  fi
  rm -rf "$fresh"
  return 1
}

from_go() { GOBIN=$fresh go install -ldflags '-s -w' "$1"; }

# Both Helms are called helm; the third is told which Kubernetes it may believe in, for it believes in a very old one.
helm3_from_go() {
  local p=helm.sh/helm/v3/pkg
  GOBIN=$fresh go install -ldflags "-s -w -X $p/lint/rules.k8sVersionMajor=1 -X $p/lint/rules.k8sVersionMinor=34 \
    -X $p/chartutil.k8sVersionMajor=1 -X $p/chartutil.k8sVersionMinor=34 -X helm.sh/helm/v3/internal/version.version=$helm3" \
    "helm.sh/helm/v3/cmd/helm@$helm3" && mv "$fresh/helm" "$fresh/helm3"
}
helm4_from_go() { from_go "helm.sh/helm/v4/cmd/helm@$helm4" && mv "$fresh/helm" "$fresh/helm4"; }

# Its go.mod has a replacement, so it is no command to install: a module of our own names it as a tool.
unittest_from_go() {
  cat >"$fresh/go.mod" <<END
module auditferry/tools/unittest

go 1.24.0

tool github.com/helm-unittest/helm-unittest/cmd/helm-unittest

require github.com/helm-unittest/helm-unittest $unittest

replace github.com/vmware-labs/yaml-jsonpath v0.3.2 => github.com/helm-unittest/yaml-jsonpath v0.4.0
END
  (cd "$fresh" && go mod tidy && go build -ldflags '-s -w' -o untt github.com/helm-unittest/helm-unittest/cmd/helm-unittest)
}

# module <path@version>: its folder in the module cache.
module() { (cd "$tools" && GO111MODULE=on go mod download -json "$1") | sed -n 's/^\s*"Dir": "\(.*\)",\?$/\1/p'; }

schemas() {
  local version dir here
  here=$(cd "$(dirname "$0")/../.." && pwd)
  for version in $kubernetes; do
    [ -f "$tools/schemas/$version/done" ] && continue
    dir=$(module "k8s.io/kubernetes@$version") && [ -n "$dir" ] || return 1
    "$here/node_modules/.bin/node" "$here/scripts/kubernetes-schemas.ts" "$tools/schemas/$version" "$dir/api/openapi-spec/swagger.json" || return 1
  done
  [ -f "$tools/schemas/operator-$operator/done" ] && return 0
  dir=$(module "github.com/prometheus-operator/prometheus-operator@$operator") && [ -n "$dir" ] || return 1
  "$here/node_modules/.bin/node" "$here/scripts/kubernetes-schemas.ts" "$tools/schemas/operator-$operator" "$dir"/example/prometheus-operator-crd/*.yaml
}

mkdir -p "$bin" || without "$bin cannot be made"
command -v go >/dev/null || without 'there is no Go, Helm and its like are not built'
built helm3 "$helm3" helm3_from_go || without 'Helm 3 could not be built'
built helm4 "$helm4" helm4_from_go || without 'Helm 4 could not be built'
built untt "$unittest" unittest_from_go || without 'helm-unittest could not be built'
built kubeconform "$kubeconform" from_go "github.com/yannh/kubeconform/cmd/kubeconform@$kubeconform" || without 'kubeconform could not be built'
built helm-docs "$helm_docs" from_go "github.com/norwoodj/helm-docs/cmd/helm-docs@$helm_docs" || without 'helm-docs could not be built'
schemas || without 'the schemas could not be had'
printf 'Helm 3 and 4, helm-unittest, kubeconform, helm-docs in %s\n' "$bin"
