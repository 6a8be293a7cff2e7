# Sourced by the scripts here that run an engine or a cluster for the time of one command: how its processes and folders end.
# shellcheck shell=bash

# until_true <seconds> <command …>
until_true() {
  local end=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$end" ] || return 1
    sleep 0.2
  done
}

gone() { ! kill -0 "$1" 2>/dev/null; }

# end_process <pid> [seconds]: asks, waits, then kills.
end_process() {
  kill "$1" 2>/dev/null || return 0
  until_true "${2:-10}" gone "$1" && return 0
  kill -9 "$1" 2>/dev/null
  until_true 5 gone "$1"
}

# remove_run <folder>: whatever is mounted below goes with it, what was mounted last first.
remove_run() {
  awk -v under="$1/" 'index($2, under) == 1 { print $2 }' /proc/mounts | sort -r | xargs -r -n 1 umount -l
  rm -rf "$1"
}
