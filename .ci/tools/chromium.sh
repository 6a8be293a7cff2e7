#!/usr/bin/env bash
# Brings the Chromium that test/browser looks at the status page with: Debian's own. May be run again: what is there stays.
# Where it cannot be had it says so and exits 0: the suite then skips, loudly.
set -u
# shellcheck source=.ci/tools/bringing.sh
. "$(dirname "$0")/bringing.sh" || exit 1

if ! command -v chromium >/dev/null; then
  command -v apt-get >/dev/null || without 'this is no Debian, Chromium is not brought'
  export DEBIAN_FRONTEND=noninteractive
  as_root apt-get update -qq && as_root apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core ||
    without 'Chromium could not be installed'
fi
chromium --version 2>/dev/null
