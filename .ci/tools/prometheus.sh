#!/usr/bin/env bash
# Brings Prometheus, promtool and Alertmanager, which `npm run test:monitoring` runs the rules, the alerts and the dashboard against.
# Debian's, of the suite that this machine is: 2.42 and 0.25 with bookworm; what is there already is used when it is not older.
# May be run again: what is there stays. Where they cannot be had it says so and exits 0: the suite then skips, loudly.
set -u
# shellcheck source=.ci/tools/bringing.sh
. "$(dirname "$0")/bringing.sh" || exit 1

export DEBIAN_FRONTEND=noninteractive
export PATH=$PATH:/usr/sbin

there() {
  command -v prometheus >/dev/null && command -v promtool >/dev/null && command -v prometheus-alertmanager >/dev/null
}

if ! there; then
  command -v apt-get >/dev/null || without 'this is no Debian, Prometheus is not brought'
  # Installed for its programs: a service that starts by itself would only be in the way.
  { as_root apt-get update -qq && as_root env RUNLEVEL=1 apt-get install -y -qq --no-install-recommends prometheus prometheus-alertmanager; } ||
    without 'Prometheus could not be installed'
  there || without 'Prometheus was installed, and its programs are not there'
fi

version=$(prometheus --version 2>&1 | sed -nE '1s/^prometheus, version ([0-9]+\.[0-9]+).*/\1/p')
[ "$(printf '2.42\n%s\n' "$version" | sort -V | head -n 1)" = 2.42 ] || without "Prometheus is $version, the rules want 2.42 or later"
printf 'prometheus %s, %s\n' "$version" "$(prometheus-alertmanager --version 2>&1 | sed -nE '1s/^(alertmanager), version ([^ ]+).*/\1 \2/p')"
