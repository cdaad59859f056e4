#!/bin/bash
# Records what a GPU computes for the emulator to be compared with, bit for bit (traces/gpu,
# tests/cases/gpu_record_test.cpp): small runs of tokenweave (peer and push) and pypto on virtual
# ranks of one GPU.
#
#   record_outputs.sh RINGFENCE-GPU OUTPUT_FOLDER
#
# Blocks are chosen so that a block has 2 to 15 rows: that is the kernel whose PTX is in traces/ptx.
# One run that fails does not stop the others; the exit status is 1 then.
set -euo pipefail
[ $# = 2 ] || { echo "usage: record_outputs.sh RINGFENCE-GPU OUTPUT_FOLDER" >&2; exit 2; }
gpu=$1
out=$2
mkdir -p "$out"
failed=0
record() { # record NAME OPTION...
  local name=$1; shift
  if ! "$gpu" run --fill normal --calls 2 --timeout 20 --record "$out/$name.safetensors" "$@" > /tmp/record.$$ 2>&1; then
    echo "record_outputs.sh: $name failed: $(tail -1 /tmp/record.$$)" >&2
    failed=1
  fi
  rm -f /tmp/record.$$
}
tokenweave() { # tokenweave TRANSPORT DTYPE RANKS TOKENS HIDDEN BLOCKS
  record "tokenweave-$1-$2-r$3-t$4-h$5" --protocol tokenweave --transport "$1" --dtype "$2" --virtual-ranks "$3" \
    --tokens "$4" --hidden "$5" --inner $((64 * $3)) --blocks "$6"
}
pypto() { # pypto RANKS HIDDEN
  record "pypto-bf16-r$1-t8-h$2" --protocol pypto --dtype bf16 --virtual-ranks "$1" --tokens 8 --hidden "$2" \
    --inner $((64 * $1)) --blocks 2 --tile-rows 8
}
tokenweave peer bf16 2 4 256 1
tokenweave peer bf16 2 4 1024 1
tokenweave peer bf16 2 8 256 2
tokenweave peer bf16 4 8 256 1
tokenweave peer fp16 2 4 256 1
tokenweave peer fp16 4 8 256 1
tokenweave push bf16 2 8 256 2
tokenweave push bf16 4 8 256 1
tokenweave push fp16 2 4 256 1
pypto 2 256
pypto 3 128
pypto 4 128
exit $failed
