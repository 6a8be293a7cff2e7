#!/usr/bin/env bash
# Runs a command beside a Kubernetes cluster of one node: `cluster.sh npm run test:cluster`.
# etcd, API server, controllers, scheduler and kubelet of this machine over a containerd of its own; all of it is stopped at the end.
# `cluster.sh --build` only brings the programs: Kubernetes is built from its sources, which takes some ten minutes the first time.
# Where it cannot run it says so and runs the command all the same: the suites that want a cluster then skip, loudly.
set -u
# shellcheck source=.ci/tools/processes.sh
. "$(dirname "$0")/processes.sh" || exit 1

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

# processes_of <run>: every program of a cluster is told where its run lies; containerd's shims too.
processes_of() {
  local process
  for process in /proc/[0-9]*; do
    { tr '\0' ' ' <"$process/cmdline"; } 2>/dev/null | grep -qF -- "$1/" && echo "${process#/proc/}"
  done
}

# children_of <pid …>: the containers of a shim.
children_of() {
  local process parent
  for process in /proc/[0-9]*; do
    parent=$(awk '$1 == "PPid:" { print $2 }' "$process/status" 2>/dev/null)
    case " $* " in *" ${parent:-none} "*) echo "${process#/proc/}" ;; esac
  done
}

# What pods that were not ended in order leave of their network: a link each, which would lead their successors' addresses astray.
remove_links() {
  local link
  for link in $(ip route | sed -nE 's/^10\.244\.7\.[0-9]+ .*dev (veth\w+).*/\1/p' | sort -u); do ip link delete "$link"; done
  ip address del "$host/32" dev lo 2>/dev/null
}

# A former run that was killed may have left its node.
end_former() {
  local former pid
  former=$(cat "$bin/run" 2>/dev/null || echo none)
  case $former in
    /tmp/auditferry-cluster.*)
      rm -f "$former/running"
      # shellcheck disable=SC2046 # numbers
      for pid in $(children_of $(processes_of "$former")); do kill -9 "$pid" 2>/dev/null; done
      for pid in $(processes_of "$former"); do end_process "$pid"; done
      remove_run "$former"
      ;;
  esac
  remove_links
  rm -f "$bin/run"
}

clean_up() {
  trap - EXIT INT TERM HUP
  [ -n "$run" ] || return
  # By the kubelet, so that networks and mounts go with the pods.
  if [ -f "$run/ready" ]; then
    "$bin/kubectl" delete statefulsets,deployments,jobs --all --all-namespaces --wait=false >/dev/null 2>&1
    "$bin/kubectl" delete pods --all --all-namespaces --grace-period=1 --timeout=30s >/dev/null 2>&1
  fi
  rm -f "$run/running"
  end_process "$(cat "$run/kubelet.pid" 2>/dev/null || echo none)"
  local pid left
  for left in $(ctr --address "$run/containerd.sock" -n k8s.io tasks ls -q 2>/dev/null); do
    ctr --address "$run/containerd.sock" -n k8s.io tasks kill -s SIGKILL "$left" >/dev/null 2>&1
  done
  for pid in $(processes_of "$run"); do
    case " ${pids[*]} " in *" $pid "*) ;; *) end_process "$pid" ;; esac
  done
  for ((left = ${#pids[@]} - 1; left >= 0; left--)); do end_process "${pids[left]}"; done
  remove_links
  [ -z "${AUDITFERRY_CLUSTER_LOGS:-}" ] || { mkdir -p "$AUDITFERRY_CLUSTER_LOGS" && cp "$run"/*.log "$AUDITFERRY_CLUSTER_LOGS/"; }
  remove_run "$run"
  rm -f "$bin/run"
}

installed() {
  export DEBIAN_FRONTEND=noninteractive PATH=$PATH:/usr/sbin:/sbin
  command -v etcd >/dev/null && command -v containerd >/dev/null && [ -x /usr/lib/cni/ptp ] && command -v catatonit >/dev/null && command -v ip >/dev/null && return 0
  # Installed for their programs: a service that starts by itself would only be in the way.
  apt-get update -qq &&
    RUNLEVEL=1 apt-get install -y -qq --no-install-recommends etcd-server docker.io containernetworking-plugins catatonit iproute2 openssl >/dev/null
}

# start <name> <command …>
start() {
  local name=$1
  shift
  "$@" >"$run/$name.log" 2>&1 9>&- &
  pids+=($!)
}

configure() {
  mkdir -p "$run"/{etcd,certs,kubelet,cni} || return 1
  openssl genrsa -out "$run/sa.key" 2048 2>/dev/null && openssl rsa -in "$run/sa.key" -pubout -out "$run/sa.pub" 2>/dev/null || return 1
  echo 'admintoken,admin,1,"system:masters"' >"$run/tokens.csv"
  cat >"$run/kubeconfig" <<END
apiVersion: v1
kind: Config
clusters: [{ name: here, cluster: { server: 'https://127.0.0.1:16443', certificate-authority: $run/certs/apiserver.crt } }]
users: [{ name: admin, user: { token: admintoken } }]
contexts: [{ name: here, context: { cluster: here, user: admin } }]
current-context: here
END
  cat >"$run/cni/10-pods.conflist" <<END
{ "cniVersion": "0.4.0", "name": "pods", "plugins": [{ "type": "ptp", "ipMasq": false,
  "ipam": { "type": "host-local", "dataDir": "$run/ipam", "ranges": [[{ "subnet": "10.244.7.0/24" }]], "routes": [{ "dst": "0.0.0.0/0" }] } }] }
END
  cat >"$run/containerd.toml" <<END
version = 2
root = "$run/containerd"
state = "$run/containerd-state"
[grpc]
  address = "$run/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "docker.io/library/pause:local"
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$run/cni"
END
  cat >"$run/kubelet.yaml" <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 127.0.0.1
port: 16250
healthzPort: 0
containerRuntimeEndpoint: unix://$run/containerd.sock
cgroupDriver: cgroupfs
cgroupsPerQOS: false
enforceNodeAllocatable: []
failSwapOn: false
failCgroupV1: false
localStorageCapacityIsolation: false
authentication: { anonymous: { enabled: true }, webhook: { enabled: false } }
authorization: { mode: AlwaysAllow }
# What is rotated arrives sooner than the minute of the default.
syncFrequency: 5s
configMapAndSecretChangeDetectionStrategy: Watch
END
}

# The image of the pause container, which the engine of docker.sh makes.
pause() {
  [ -f "$bin/pause.tar" ] && return 0
  mkdir "$run/pause" && cp "$(command -v catatonit)" "$run/pause/catatonit" || return 1
  printf 'FROM scratch\nCOPY catatonit /pause\nENTRYPOINT ["/pause", "-P"]\n' >"$run/pause/Dockerfile"
  docker build -q -t pause:local "$run/pause" >/dev/null 2>&1 && docker save -o "$bin/pause.tar.new" pause:local && mv "$bin/pause.tar.new" "$bin/pause.tar"
}

# The kubelet comes back when it ends, as under a service manager.
keep_kubelet() {
  while [ -f "$run/running" ]; do
    "$bin/kubelet" --config="$run/kubelet.yaml" --kubeconfig="$run/kubeconfig" --root-dir="$run/kubelet" --cert-dir="$run/kubelet/pki" \
      --hostname-override=localhost >>"$run/kubelet.log" 2>&1 &
    echo $! >"$run/kubelet.pid.new" && mv "$run/kubelet.pid.new" "$run/kubelet.pid"
    wait $!
    sleep 0.5
  done
}

start_cluster() {
  local kubectl=$bin/kubectl account=(--service-account-private-key-file="$run/sa.key")
  ip address add "$host/32" dev lo || return 1
  start etcd etcd --data-dir "$run/etcd" --listen-client-urls http://127.0.0.1:12379 --advertise-client-urls http://127.0.0.1:12379 \
    --listen-peer-urls http://127.0.0.1:12380 --unsafe-no-fsync
  start containerd containerd --config "$run/containerd.toml"
  start apiserver "$bin/kube-apiserver" --etcd-servers=http://127.0.0.1:12379 --bind-address=127.0.0.1 --secure-port=16443 --cert-dir="$run/certs" \
    --service-account-issuer=https://kubernetes.default.svc --service-account-key-file="$run/sa.pub" --service-account-signing-key-file="$run/sa.key" \
    --authorization-mode=RBAC --token-auth-file="$run/tokens.csv" --service-cluster-ip-range=10.96.0.0/24
  export KUBECONFIG=$run/kubeconfig
  until_true 60 "$kubectl" get --raw /readyz || return 1
  start controllers "$bin/kube-controller-manager" --kubeconfig="$KUBECONFIG" "${account[@]}" --bind-address=127.0.0.1 --secure-port=0 --leader-elect=false
  start scheduler "$bin/kube-scheduler" --kubeconfig="$KUBECONFIG" --bind-address=127.0.0.1 --secure-port=0 --leader-elect=false
  until_true 20 ctr --address "$run/containerd.sock" version || return 1
  ctr --address "$run/containerd.sock" -n k8s.io images import "$bin/pause.tar" >/dev/null || return 1
  touch "$run/running"
  # Of a kubelet that was killed the shell would tell.
  keep_kubelet 9>&- 2>/dev/null &
  pids+=($!)
  is_ready() { "$kubectl" get node localhost -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}' | grep -q True; }
  until_true 60 is_ready || return 1
  touch "$run/ready"
}

[ "$(id -u)" = 0 ] || as_it_is 'a node needs root' "$@"
command -v apt-get >/dev/null || as_it_is 'this is no Debian, its programs are not brought' "$@"
docker version >/dev/null 2>&1 || as_it_is 'no Docker engine answers, nothing makes its images (.ci/tools/docker.sh brings one)' "$@"
# Where pods find this machine: an address of its own that no pod is given.
host=10.244.8.1
built || as_it_is 'Kubernetes could not be built' "$@"
installed || as_it_is "the node's programs could not be installed" "$@"
exec 9>"$bin/lock"
flock -w 300 9 || as_it_is 'another run has the cluster' "$@"
trap clean_up EXIT
trap 'exit 130' INT TERM HUP
# Sockets have short names only.
end_former
run=$(mktemp -d /tmp/auditferry-cluster.XXXXXX)
echo "$run" >"$bin/run"
pause || as_it_is 'the image of the pause container could not be made' "$@"
since=$SECONDS
configure || as_it_is 'the cluster could not be configured' "$@"
start_cluster || { tail -n 3 "$run"/*.log; as_it_is 'the cluster does not start' "$@"; }
printf 'Kubernetes %s ready after %d s\n' "$version" $((SECONDS - since))
export AUDITFERRY_CLUSTER=$run AUDITFERRY_CLUSTER_HOST=$host AUDITFERRY_KUBECTL=$bin/kubectl
"$@" 9>&-
