#!/usr/bin/env bash
# Brings PostgreSQL and pgbouncer for the suite of test/postgres, which starts servers of its own.
# May be run again: what is there stays. Where they cannot be had it says so and exits 0: the suite then skips, loudly.
set -u
# shellcheck source=.ci/tools/bringing.sh
. "$(dirname "$0")/bringing.sh" || exit 1

command -v apt-get >/dev/null || without 'this is no Debian, PostgreSQL is not brought'
export DEBIAN_FRONTEND=noninteractive

missing=()
compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || missing+=(postgresql)
[ -x /usr/sbin/pgbouncer ] || missing+=(pgbouncer)
if [ ${#missing[@]} -gt 0 ]; then
  # Installed for their programs: services that start by themselves would only be in the way.
  as_root apt-get update -qq && as_root env RUNLEVEL=1 apt-get install -y -qq --no-install-recommends "${missing[@]}" ||
    without "${missing[*]} could not be installed"
fi
printf 'PostgreSQL in %s, %s\n' "$(compgen -G '/usr/lib/postgresql/*/bin' | tail -n 1)" "$(/usr/sbin/pgbouncer --version | head -n 1)"
