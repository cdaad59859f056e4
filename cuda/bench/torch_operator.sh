#!/bin/bash
# Verifies ringfence.torch on one GPU, in one call of under ten minutes with its build, without a network:
# PyTorch, nvcc, g++, pytest and the header-only libraries of build.sh have to be there.
#
#   torch_operator.sh RESULTS [INCLUDE_FOLDER...]
#
# INCLUDE_FOLDER: what build.sh is given, beside /usr/include/eigen3.
# RESULTS: a folder for summary.txt and log.txt. Exit status 0 where every part passed.
#
# NVLink multicast stays off: the script stops where one of the three switches is set to anything but
# off, and sets them for every program that it starts.
set -uo pipefail
for pair in NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1; do
  name=${pair%%=*} value=${pair##*=}
  if [ -n "${!name+x}" ] && [ "${!name}" != "$value" ]; then
    echo "torch_operator.sh: $name is '${!name}': it must be $value" >&2
    exit 2
  fi
  export "$name=$value"
done
if [ $# -lt 1 ]; then echo "usage: torch_operator.sh RESULTS [INCLUDE_FOLDER...]" >&2; exit 2; fi
mkdir -p "$1" || exit 2
results=$(readlink -f "$1"); shift
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$root" || exit 2
log=$results/log.txt summary=$results/summary.txt
: > "$log"; : > "$summary"
failures=0
say() { echo "$*" | tee -a "$summary"; }

# part NAME SECONDS COMMAND...: one line, and the last lines of what failed.
part() {
  local name=$1 limit=$2 begin=$SECONDS left=$((570 - SECONDS)); shift 2
  # What a call of ten minutes leaves.
  [ "$limit" -le "$left" ] || limit=$left
  if [ "$limit" -lt 10 ]; then
    failures=$((failures + 1))
    say "FAILED  $name: no time left"
    return
  fi
  echo "=== $name: $*" >> "$log"
  timeout "$limit" "$@" > "$work/last.txt" 2>&1
  local status=$?
  cat "$work/last.txt" >> "$log"
  if [ $status -eq 0 ]; then
    say "passed  $name, $((SECONDS - begin)) s: $(grep -E 'passed|skipped|done' "$work/last.txt" | tail -n 1)"
  else
    failures=$((failures + 1))
    say "FAILED  $name, status $status, $((SECONDS - begin)) s"
    grep -E '^(E  |FAILED|ERROR)' "$work/last.txt" | head -n 30 | cut -c1-300 | tee -a "$summary"
    tail -n 12 "$work/last.txt" | cut -c1-300
  fi
}

export CUDA_HOME=${CUDA_HOME:-$(dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")")}
# Both builds at once: each has one file that takes most of its time.
bash cuda/bench/build.sh "$work/build" /usr/include/eigen3 "$@" > "$work/gpu_build.txt" 2>&1 & gpu_build=$!
part "build of ringfence-torch" 300 python3 -m pip wheel -v --no-index --no-deps --no-build-isolation -w "$work/wheel" python/torch
wait "$gpu_build" || { failures=$((failures + 1)); say "FAILED  build of ringfence-gpu"; tail -n 5 "$work/gpu_build.txt"; }
part "install" 60 python3 -m pip install --no-index --no-deps --target "$work/site" "$work"/wheel/*.whl
cat "$work/site/ringfence_torch/build.json" >> "$summary"
export PYTHONPATH=$work/site:$root/python/src PYTHONUNBUFFERED=1

gpu=$work/build/ringfence-gpu
mkdir -p "$work/records"
record() { # record TRANSPORT DTYPE RANKS TOKENS HIDDEN
  timeout 60 "$gpu" run --fill normal --calls 1 --timeout 20 --protocol tokenweave --transport "$1" --dtype "$2" \
    --virtual-ranks "$3" --tokens "$4" --hidden "$5" --inner $((64 * $3)) \
    --record "$work/records/tokenweave-$1-$2-r$3-t$4-h$5.safetensors" >> "$log" 2>&1 ||
    { failures=$((failures + 1)); say "FAILED  record $*"; }
}
record peer bf16 2 257 8192
record peer bf16 8 64 8192
record peer fp16 4 130 4096
record push bf16 2 64 8192
record push fp16 4 33 16384
export RINGFENCE_RECORDS=$work/records

cd python/tests || exit 2
tests() { python3 -m pytest -q -rs -s -p no:cacheprovider --tb=short gpu_torch.py "$@"; }
export -f tests
part "virtual ranks" 150 bash -c "tests -k virtual"
part "graphs" 150 bash -c "tests -k graphs"
part "compiled" 150 bash -c "tests -k compiled"
part "processes" 240 bash -c "tests -k processes"
part "figures" 90 bash -c "tests -k figures"
grep '^R [0-9]' "$log" | tee -a "$summary"
for ranks in 2 4; do
  part "the kernel alone, R $ranks" 60 "$gpu" bench --virtual-ranks "$ranks" --tokens 8,64,256,1024 --hidden 8192 \
    --inner $((64 * ranks)) --methods fused --timeout 10
  tee -a "$summary" < "$work/last.txt"
done
if command -v compute-sanitizer > /dev/null; then
  # Each tensor an allocation of its own, so that what lies beside it is not there.
  export PYTORCH_NO_CUDA_MEMORY_CACHING=1
  memcheck() { compute-sanitizer --tool memcheck --report-api-errors no --error-exitcode 9 python3 gpu_torch.py "$@"; }
  export -f memcheck
  part "memcheck" 200 bash -c memcheck
  part "memcheck of a read outside" 100 bash -c 'memcheck --outside; [ $? -eq 9 ] && echo "done: it was noticed"'
else
  say "not run: memcheck (no compute-sanitizer)"
fi
say "$failures failed"
[ $failures -eq 0 ]
