#!/usr/bin/env bash
# Runs a command beside a Docker engine of its own, with images of its own making: `docker.sh npm run test:integration`.
# The engine is Debian's; it keeps its images in the tools' folder, has host networking alone, pulls nothing, and is stopped at the end.
# Where it cannot run it says so and runs the command all the same: the suites that want containers then skip, loudly.
set -u
# shellcheck source=.ci/tools/processes.sh
. "$(dirname "$0")/processes.sh" || exit 1

tools=${AUDITFERRY_TOOLS:-$HOME/.cache/auditferry-tools}
home=$tools/docker
checkout=$(cd "$(dirname "$0")/../.." && pwd)
run=
engine=

as_it_is() {
  printf 'SKIPPED: %s; the suites that want containers say so\n' "$1"
  shift
  AUDITFERRY_RECEIVERS=containers AUDITFERRY_IMAGE_PULL=never "$@"
  exit
}

# A former run that was killed may have left its engine on the same folder.
end_former() {
  local pid former
  pid=$(cat "$home/pid" 2>/dev/null || echo none)
  if { tr '\0' ' ' <"/proc/$pid/cmdline"; } 2>/dev/null | grep -qF -- "--data-root $home/data"; then end_process "$pid" 20; fi
  former=$(cat "$home/run" 2>/dev/null || echo none)
  case $former in /tmp/auditferry-docker.*) remove_run "$former" ;; esac
  rm -f "$home/pid" "$home/run"
}

clean_up() {
  trap - EXIT INT TERM HUP
  if [ -n "$engine" ]; then
    if docker version >/dev/null 2>&1; then
      docker ps -aq | xargs -r docker rm -f -v >/dev/null
    fi
    end_process "$engine" 20
    end_process "$(cat "$run/exec/containerd/containerd.pid" 2>/dev/null || echo none)" 20
  fi
  if [ -n "$run" ]; then
    remove_run "$run"
    rm -f "$home/run"
  fi
}

installed() {
  export DEBIAN_FRONTEND=noninteractive PATH=$PATH:/usr/sbin:/sbin
  command -v dockerd >/dev/null && command -v debootstrap >/dev/null && command -v iptables >/dev/null && return 0
  # Installed for its programs: a service that starts by itself would only be in the way.
  apt-get update -qq && RUNLEVEL=1 apt-get install -y -qq --no-install-recommends docker.io iptables debootstrap
}

start_engine() {
  # Debian's own client has BuildKit inside; another one on the path may lack it.
  if [ -x /usr/bin/docker ]; then
    mkdir -p "$run/bin" && ln -s /usr/bin/docker "$run/bin/docker"
    export PATH=$run/bin:$PATH DOCKER_BUILDKIT=1
  fi
  unset DOCKER_CONTEXT DOCKER_TLS_VERIFY DOCKER_CERT_PATH
  export DOCKER_HOST=unix://$run/docker.sock
  dockerd --host "$DOCKER_HOST" --data-root "$home/data" --exec-root "$run/exec" --pidfile "$home/pid" \
    --iptables=false --ip6tables=false --bridge=none --storage-driver=overlay2 >"$home/log" 2>&1 9>&- &
  engine=$!
  up() { gone "$engine" || docker version; }
  until_true 30 up && ! gone "$engine"
}

# The stand-in for all public images: each finds its program where theirs has it.
image() {
  local suite=$1 tag
  tag=$(cat <(declare -f image) "$tools/syslog-ng/usr/sbin/syslog-ng" "$tools/bin/versitygw" 2>/dev/null | sha256sum | cut -c 1-12)
  stand_in=auditferry-gate/receivers:$suite-$tag
  docker image inspect "$stand_in" >/dev/null 2>&1 && return 0
  docker images -q auditferry-gate/receivers | sort -u | xargs -r docker rmi -f >/dev/null
  local root=$run/root
  debootstrap --variant=minbase --include=rsyslog,rsyslog-openssl,rsyslog-relp,libglib2.0-0,libcap2,libjson-c5,libnsl2,libsystemd0,libatomic1 "$suite" "$root" >"$home/debootstrap.log" 2>&1 ||
    { tail -n 5 "$home/debootstrap.log"; return 1; }
  if [ -d "$tools/syslog-ng" ]; then
    tar -C "$tools/syslog-ng" -c . | tar -C "$root" --keep-directory-symlink -x || return 1
    echo /usr/lib/syslog-ng >"$root/etc/ld.so.conf.d/syslog-ng.conf"
    chroot "$root" ldconfig || return 1
  fi
  if [ -x "$tools/bin/versitygw" ]; then cp "$tools/bin/versitygw" "$root/usr/local/bin/" || return 1; fi
  rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/* "$root"/usr/share/{doc,locale,man}
  tar -C "$root" -c . | docker import - "$stand_in" >/dev/null
}

# The stand-in for the public image of Node: the same Node as everywhere here, this machine's npm and its way to the registry.
node_image() {
  local node npm context=$run/node tag userconfig
  node=$(compgen -G "$checkout/node_modules/node-linux-*/bin/node") && npm=$(readlink -f "$(command -v npm)") || return 1
  npm=${npm%/bin/npm-cli.js}
  [ -f "$npm/package.json" ] || return 1
  userconfig=$(npm config get userconfig 2>/dev/null)
  mkdir -p "$context"
  cat "${NODE_EXTRA_CA_CERTS:-/dev/null}" >"$context/ca.pem" 2>/dev/null
  cat "$userconfig" >"$context/npmrc" 2>/dev/null
  tag=$(cat <(declare -f node_image) <(echo "$stand_in") "$node" "$npm/package.json" "$context"/* | sha256sum | cut -c 1-12)
  node_stand_in=auditferry-gate/node:$tag
  docker image inspect "$node_stand_in" >/dev/null 2>&1 && return 0
  docker images -q auditferry-gate/node | sort -u | xargs -r docker rmi -f >/dev/null 2>&1
  cp "$node" "$context/node" && cp -RL "$npm" "$context/npm" || return 1
  cat >"$context/Dockerfile" <<END
FROM $stand_in
COPY node /usr/local/bin/node
COPY npm /usr/local/lib/node_modules/npm
COPY ca.pem /etc/ssl/registry-ca.pem
COPY npmrc /etc/npmrc
RUN ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm
ENV NODE_EXTRA_CA_CERTS=/etc/ssl/registry-ca.pem NPM_CONFIG_USERCONFIG=/etc/npmrc
END
  docker build -q --network host -t "$node_stand_in" "$context" >"$home/node-image.log" 2>&1 || { tail -n 5 "$home/node-image.log"; return 1; }
}

[ $# -gt 0 ] || { echo 'usage: docker.sh <command …>' >&2; exit 2; }
[ "$(id -u)" = 0 ] || as_it_is 'an engine needs root' "$@"
command -v apt-get >/dev/null || as_it_is 'this is no Debian, there is no engine' "$@"
suite=$(. /etc/os-release && [ "$ID" = debian ] && echo "$VERSION_CODENAME") || as_it_is 'this is no Debian, no image is made' "$@"
mkdir -p "$home" || as_it_is "$home cannot be made" "$@"
exec 9>"$home/lock"
flock -w 300 9 || as_it_is 'another run has the engine' "$@"

trap clean_up EXIT
trap 'exit 130' INT TERM HUP
# Sockets have short names only.
run=$(mktemp -d /tmp/auditferry-docker.XXXXXX)
installed || as_it_is 'the engine could not be installed' "$@"
end_former
echo "$run" >"$home/run"
since=$SECONDS
start_engine || { tail -n 5 "$home/log"; as_it_is 'the engine does not start' "$@"; }
image "$suite" || as_it_is 'no image could be made' "$@"
# What builds of former days left behind.
docker builder prune -f --keep-storage 3GB >/dev/null 2>&1
docker image prune -f --filter until=72h >/dev/null 2>&1
printf 'engine and image ready after %d s: %s\n' $((SECONDS - since)) "$stand_in"

# Ryuk, which clears up behind testcontainers elsewhere, is an image too. The host is told: where the gate itself runs in a
# container, testcontainers would look for a network that there is not.
export TESTCONTAINERS_RYUK_DISABLED=true TESTCONTAINERS_HOST_OVERRIDE=127.0.0.1
export AUDITFERRY_RECEIVERS=containers AUDITFERRY_DOCKER_NETWORK=host AUDITFERRY_IMAGE_PULL=never
export AUDITFERRY_IMAGE_RSYSLOG=$stand_in AUDITFERRY_IMAGE_SYSLOG_NG=$stand_in
if node_image; then export AUDITFERRY_IMAGE_NODE=$node_stand_in; else echo 'SKIPPED: no image of Node could be made'; fi
[ ! -x "$tools/bin/versitygw" ] || export AUDITFERRY_IMAGE_VERSITYGW=$stand_in
"$@" 9>&-
