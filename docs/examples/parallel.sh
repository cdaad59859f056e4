#!/bin/sh
# A campaign on all cores of this machine, with GNU parallel (Debian: parallel). Interrupted or
# killed, it goes on where it stopped when it is started again. More machines: add --sshlogin, or
# run other shards elsewhere into folders of their own and merge them all.
#
#   docs/examples/parallel.sh [FOLDER] [SHARDS] [OPTIONS OF FUZZ...]
set -eu
ringfence=${RINGFENCE:-ringfence}
folder=${1:-campaign}
shards=${2:-$(nproc)}
[ $# -lt 2 ] || shift 2
[ $# -gt 0 ] || set -- --swarm --canary --units 1000 --schedules 500
# A shard that found something ends with 1: no reason to stop the others.
parallel --will-cite --jobs "${JOBS:-$(nproc)}" --line-buffer --tagstring 'shard {}' \
  "$ringfence" fuzz --campaign "$folder" --shard "{}/$shards" --executor inline "$@" \
  ::: $(seq "$shards") || true
"$ringfence" merge "$folder" --json "$folder/merged.json" --junit "$folder/merged.xml"
