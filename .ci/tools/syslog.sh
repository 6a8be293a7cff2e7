#!/usr/bin/env bash
# Brings the syslog receivers that the suites of test/integration run against: rsyslog, and syslog-ng in a folder of its own.
# The two conflict under apt, so syslog-ng is unpacked beside the system. May be run again: what is there stays.
# Where they cannot be had it says so and exits 0: the suites then skip, loudly.
set -u
# shellcheck source=.ci/tools/bringing.sh
. "$(dirname "$0")/bringing.sh" || exit 1

tools=${AUDITFERRY_TOOLS:-$HOME/.cache/auditferry-tools}
root=$tools/syslog-ng

command -v apt-get >/dev/null || without 'this is no Debian, rsyslog and syslog-ng are not brought'
export DEBIAN_FRONTEND=noninteractive
export PATH=$PATH:/usr/sbin

updated=
update() {
  [ -n "$updated" ] || as_root apt-get update -qq || return 1
  updated=1
}

module() {
  compgen -G "/usr/lib/*/rsyslog/$1.so" >/dev/null
}

if ! command -v rsyslogd >/dev/null || ! module imrelp || ! module lmnsd_ossl; then
  # Installed for its program: a service that starts by itself would only be in the way.
  update && as_root env RUNLEVEL=1 apt-get install -y -qq --no-install-recommends rsyslog rsyslog-openssl rsyslog-relp ||
    without 'rsyslog could not be installed'
fi
rsyslogd -v | head -n 1

if [ ! -x "$root/usr/sbin/syslog-ng" ]; then
  fresh=$(mktemp -d "${TMPDIR:-/tmp}/syslog-ng.XXXXXX")
  trap 'rm -rf "$fresh"' EXIT
  # As the user who may write here; apt's own sandbox user may not.
  update && (cd "$fresh" && apt-get download -qq -o APT::Sandbox::User= syslog-ng-core libivykis0 libnet1 libpcre3 libwrap0) ||
    without 'syslog-ng could not be downloaded'
  mkdir -p "$tools" "$fresh/root"
  for package in "$fresh"/*.deb; do dpkg -x "$package" "$fresh/root" || without 'syslog-ng could not be unpacked'; done
  # Whole or not at all: a former try that was cut short leaves nothing here.
  rm -rf "$root"
  mv "$fresh/root" "$root"
fi
printf 'syslog-ng in %s\n' "$root"
