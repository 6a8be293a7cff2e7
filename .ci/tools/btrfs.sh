#!/usr/bin/env bash
# Brings btrfs-progs, by which test/unit/journal/quota.test.ts makes a file system with a real quota, in an image of its own.
# May be run again: what is there stays. Where it cannot be had it says so and exits 0: the tests then skip, loudly.
set -u
# shellcheck source=.ci/tools/bringing.sh
. "$(dirname "$0")/bringing.sh" || exit 1

export DEBIAN_FRONTEND=noninteractive
export PATH=$PATH:/usr/sbin

if ! command -v mkfs.btrfs >/dev/null; then
  command -v apt-get >/dev/null || without 'this is no Debian, btrfs-progs is not brought'
  { as_root apt-get update -qq && as_root apt-get install -y -qq --no-install-recommends btrfs-progs; } ||
    without 'btrfs-progs could not be installed'
fi
mkfs.btrfs --version
