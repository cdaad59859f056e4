#!/bin/bash
# Verifies and times the CUDA side on all GPUs of a machine, in one call of under ten minutes with its
# build. Any number of GPUs; with one, the same steps run over processes that share it, in small.
#
#   multi_gpu.sh [--executable FILE [--test-executable FILE]] [--include FOLDER]... [--multimem]
#                [--dry-run] RESULTS
#
# RESULTS: a folder for the tables, logs and JSON, and for all.tgz, the one file to send back: it holds
# all of them. Without --executable it builds by build.sh (add --include for header-only libraries
# that are not where the compiler looks).
#
# NVLink multicast stays off: the script stops if one of the three switches is set to anything but
# off, sets them for every program that it starts, and before anything else checks that the product
# refuses the transport multimem.
#
# --multimem: also verify and time the transport multimem, on a machine whose owner allows multicast
# objects. They are shared resources of the fabric, so the script refuses this if any of the three
# switches is set by its caller, and clears them for these steps alone. Exact payloads have to give
# the bits that the reference, and so the emulator, computes under every summation policy; normal ones
# have to lie within the derived bounds. multimem.txt says which, and whether the bits equal peer's.
set -uo pipefail

executable='' tests='' dry=0 multimem=0 includes=()
while [ $# -gt 1 ]; do
  case $1 in
    --executable) executable=$(readlink -f "$2"); shift 2 ;;
    --test-executable) tests=$(readlink -f "$2"); shift 2 ;;
    --include) includes+=("$(readlink -f "$2")"); shift 2 ;;
    --multimem) multimem=1; shift ;;
    --dry-run) dry=1; shift ;;
    *) echo "multi_gpu.sh: unknown option $1 (see the top of the script)" >&2; exit 2 ;;
  esac
done
if [ $# -ne 1 ]; then echo "usage: multi_gpu.sh [options] RESULTS" >&2; exit 2; fi
case $1 in -*) echo "multi_gpu.sh: $1 is no folder (see the top of the script)" >&2; exit 2 ;; esac

# How a program is started that may make multicast objects.
with_multicast=(env)
for pair in NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1; do
  name=${pair%%=*} value=${pair##*=}
  if [ -n "${!name+x}" ] && [ $multimem = 1 ]; then
    echo "multi_gpu.sh: --multimem, but $name is set: multicast is switched off here; leave out --multimem" >&2
    exit 2
  fi
  if [ -n "${!name+x}" ] && [ "${!name}" != "$value" ]; then
    echo "multi_gpu.sh: $name is '${!name}': it must be $value" >&2
    exit 2
  fi
  export "$name=$value"
  with_multicast+=(-u "$name")
done

mkdir -p "$1" || exit 2
results=$(readlink -f "$1")
here=$(cd "$(dirname "$0")" && pwd)
log=$results/steps.log
: > "$log"

# One archive of everything, also of what an early stop leaves; the build stays out.
archive() {
  local status=$?
  # Made elsewhere: tar fails when the folder that it reads changes.
  local made
  made=$(mktemp) && tar czf "$made" -C "$results" --exclude=./build --exclude=./all.tgz . &&
    mv "$made" "$results/all.tgz" || status=1
  exit $status
}
[ $dry = 1 ] || trap archive EXIT

failures=0 steps=0

# step SECONDS WANTED_STATUS COMMAND...: one line on failure, everything in the log.
step() {
  local limit=$1 want=$2; shift 2
  steps=$((steps + 1))
  echo "=== $*" >> "$log"
  if [ $dry = 1 ]; then echo "would run: $*"; return 0; fi
  local begin=$SECONDS
  timeout "$limit" "$@" > "$results/last.txt" 2>&1
  local status=$?
  cat "$results/last.txt" >> "$log"
  echo "=== status $status, $((SECONDS - begin)) s" >> "$log"
  if [ $status -ne "$want" ]; then
    failures=$((failures + 1))
    echo "FAILED (status $status, wanted $want): $*"
    tail -n 6 "$results/last.txt" | cut -c1-240
  fi
}

if [ -z "$executable" ]; then
  build=$results/build
  if [ $dry = 1 ]; then
    echo "would build into $build"
  else
    begin=$SECONDS
    bash "$here/build.sh" --tests "$build" ${includes[@]+"${includes[@]}"}
    status=$?
    [ $status -eq 0 ] || [ $status -eq 3 ] || exit 1
    [ $status -eq 0 ] || failures=1
    echo "built in $((SECONDS - begin)) s"
  fi
  executable=$build/ringfence-gpu
  [ -x "$build/test_cuda" ] && tests=$build/test_cuda
fi
gpu=$executable

# The gate, before anything else.
gate_failures=$failures
if [ -n "$tests" ]; then step 60 0 "$tests" -tc="multicast gate*"; fi
step 20 2 "$gpu" run --virtual-ranks 2 --transport multimem
step 20 2 "$gpu" bench --transport multimem
if [ $gate_failures -ne $failures ]; then
  echo "multi_gpu.sh: the gate did not refuse multicast: nothing else is run" >&2
  exit 1
fi

count=$(nvidia-smi -L 2> /dev/null | wc -l)
[ "$count" -gt 8 ] && count=8
if [ "$dry" = 1 ] && [ "$count" -eq 0 ]; then count=2; fi
if [ "$count" -eq 0 ]; then echo "multi_gpu.sh: no GPU" >&2; exit 77; fi
{
  date -u
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
  nvidia-smi topo -m
  nvcc --version | tail -2
} > "$results/machine.txt" 2>&1
[ $dry = 1 ] || "$gpu" info | tee -a "$results/machine.txt"

mpi=(mpirun --allow-run-as-root --oversubscribe)
tr=(torchrun --no-python --nproc-per-node)
small=(--hidden 4096 --inner $((count * 256)) --calls 3 --timeout 10)
if [ "$count" -eq 1 ]; then
  # One GPU: processes take turns on it, a few milliseconds a barrier.
  n=2
  share=(--share-device --blocks 2)
  lists=("1,4")
else
  n=$count
  share=()
  lists=("1,7,64,1023")
fi

# 1. Unit tests, then the operator over every way to start ranks.
if [ -n "$tests" ]; then step 120 0 "$tests" -tce="multicast gate*"; fi
for tokens in "${lists[@]}"; do
  for dtype in bf16 fp16; do
    for fill in exact-rows normal; do
      # By barriers, and as the product chooses.
      transport=peer
      [ $fill = exact-rows ] || transport=auto
      step 90 0 "$gpu" run --launch fork --ranks "$n" ${share[@]+"${share[@]}"} --tokens "$tokens" \
        --dtype "$dtype" --fill "$fill" --transport $transport --graph "${small[@]}"
    done
    [ "$count" -gt 1 ] && step 90 0 "$gpu" run --launch one-process --ranks "$n" \
      --tokens "$tokens" --dtype "$dtype" --fill integers --graph "${small[@]}"
  done
done
if [ "$count" -gt 1 ]; then
  for hidden in 5120 8192 16384; do
    step 90 0 "$gpu" run --launch fork --ranks "$n" --tokens 33,256 --hidden "$hidden" \
      --inner $((n * 128)) --calls 2 --timeout 10 --fill integers --start-order strict --beta
  done
  step 90 0 "$gpu" run --launch fork --ranks "$n" --tokens 19 --hidden 1003 --inner $((n * 128)) \
    --calls 2 --timeout 10
  for launch in fork one-process; do
    step 90 0 "$gpu" run --launch $launch --ranks "$n" --transport push --tokens 1,64,7,2,300 \
      --hidden 8192 --inner $((n * 64)) --calls 20 --fill exact-rows --graph --timeout 10
  done
  # The transport auto: pushes and barriers in turn (8 blocks push up to 16 tokens a rank), launches
  # that start early.
  for launch in fork one-process; do
    step 90 0 "$gpu" run --launch $launch --ranks "$n" --tokens 1,64,65,7,2,300 --hidden 8192 \
      --inner $((n * 64)) --calls 18 --fill exact-rows --graph --timeout 10 --blocks 8
    step 90 0 "$gpu" run --launch $launch --ranks "$n" --tokens 1,64,65,7,2,300 --hidden 8192 \
      --inner $((n * 64)) --calls 18 --fill exact-rows --graph --timeout 10 --blocks 8 --dependent-launch
  done
  step 90 0 "$gpu" run --launch fork --ranks "$n" --tokens 64 --trace "$results/tokenweave.jsonl" \
    "${small[@]}"
  for sums in owner everywhere; do
    for rows in 8 64 128; do
      step 90 0 "$gpu" run --launch fork --ranks "$n" --protocol pypto --sums $sums --tile-rows "$rows" \
        --tokens 5,150,1000 --fill integers --graph "${small[@]}"
      step 90 0 "$gpu" run --launch one-process --ranks "$n" --protocol pypto --sums $sums --tile-rows "$rows" \
        --tokens 64,129 --fill normal --pipeline off "${small[@]}"
    done
  done
  # The largest: judging takes the CPU longer than the GPU computes, so one call.
  step 90 0 "$gpu" run --launch fork --ranks "$n" --tokens 16384 --hidden 4096 \
    --inner $((n * 64)) --fill exact-rows --calls 1 --timeout 10
  step 90 0 "$gpu" run --launch fork --ranks "$n" --tokens 64 --calls 200 --hidden 1024 \
    --inner $((n * 8)) --fill exact-rows --timeout 10
fi
step 90 0 "${mpi[@]}" -n "$n" "$gpu" run ${share[@]+"${share[@]}"} --tokens "${lists[0]}" "${small[@]}"
step 90 0 "${tr[@]}" "$n" "$gpu" run ${share[@]+"${share[@]}"} --tokens "${lists[0]}" "${small[@]}"

# 2. multimem, if asked for, and its bits beside those of peer from the same inputs.
if [ $multimem = 1 ]; then
  if [ "$count" -eq 1 ]; then
    refused='it needs several GPUs'
  elif [ $dry = 1 ]; then
    refused=''
  else
    refused=$("${with_multicast[@]}" "$gpu" info | sed -n 's/^transports: //p')
    [ "$refused" != 'peer, multimem' ] || refused=''
  fi
  if [ -n "$refused" ]; then
    failures=$((failures + 1))
    echo "multimem: not verified: $refused" | tee "$results/multimem.txt"
  else
    for dtype in bf16 fp16; do
      for fill in exact-rows integers normal; do
        case $fill in normal) wanted='within the derived bounds' ;; *) wanted='bit for bit' ;; esac
        name=multimem-$dtype-$fill before=$failures
        compared=(--launch fork --ranks "$n" --tokens 64 --dtype "$dtype" --fill "$fill" --hidden 4096
          --inner $((n * 256)) --calls 1 --timeout 10)
        step 90 0 "$gpu" run "${compared[@]}" --transport peer --output "$results/$name-peer.safetensors"
        step 90 0 "${with_multicast[@]}" "$gpu" run "${compared[@]}" --transport multimem \
          --output "$results/$name.safetensors" --json "$results/$name.json"
        [ $dry = 1 ] && continue
        verdict=ok; [ $before -eq $failures ] || verdict=FAILED
        same='the same bits as peer'
        cmp -s "$results/$name-peer.safetensors" "$results/$name.safetensors" || same='other bits than peer'
        echo "$dtype $fill, reference $wanted: $verdict; $same" | tee -a "$results/multimem.txt"
        grep -E '^(out|residual_out|tensor) ' "$results/last.txt" >> "$results/multimem.txt"
        # Whether a rounding differs is the result; the tensors are needed only where it does.
        [ "$same" = 'the same bits as peer' ] && rm -f "$results/$name.safetensors" "$results/$name-peer.safetensors"
      done
    done
    for tokens in 1,7,64,1023 16384; do
      calls=3; [ $tokens != 16384 ] || calls=1
      step 90 0 "${with_multicast[@]}" "$gpu" run --launch fork --ranks "$n" --tokens "$tokens" --hidden 4096 \
        --inner $((n * 64)) --transport multimem --fill exact-rows --calls $calls --graph --timeout 10
    done
  fi
fi

# 3. A process that ends mid-run: the others leave the barrier and say who is missing.
step 60 1 "$gpu" run --launch fork --ranks "$n" ${share[@]+"${share[@]}"} --tokens 4 --hidden 1024 \
  --inner $((n * 8)) --calls 4 --die-rank 1 --die-call 2 --timeout 3
[ $dry = 1 ] || grep -m3 -E "gave up|is missing" "$results/last.txt"

# 4. The tables, and of them table.txt: the least of each way over its blocks, against NCCL, and what
# 16 blocks, which leave the rest of the GPU to others, take.
summarise() {
  local files=("$results/fused.txt" "$results/dependent.txt")
  [ ! -e "$results/torch.txt" ] || files+=("$results/torch.txt")
  awk '
    function ratio(a, b) { return (a > 0 && b > 0) ? sprintf("%.2f", a / b) : "-" }
    function shown(value) { return value > 0 ? sprintf("%.1f", value) : "-" }
    function least(times, at, time) { if (!(at in times) || time < times[at]) { times[at] = time; return 1 } return 0 }
    FNR == 1 { ++file }
    $1 !~ /^[0-9]+$/ || (file < 3 && NF < 10) { next }
    !($1 in seen) && file < 3 { seen[$1] = 1; order[++count] = $1 }
    file == 3 { two_shot[$1] = $6; next }
    $5 == "nccl" && file == 1 { nccl[$1] = $6; next }
    $5 !~ /^fused/ { next }
    file == 2 { least(dependent, $1, $6); next }
    $3 == 16 { least(sixteen, $1, $6) }
    least(ours, $1, $6) { how[$1] = $5 ", " $3 " blocks" }
    $9 > 0 { bytes[$1] = $6 / $9 }
    END {
      print "# us, hidden 8192, bf16; ours: the least of barriers and push over all block counts"
      print "| tokens | NCCL + norm | torch two-shot + norm | ours | by | NCCL / ours | ours, dependent launch | ours, 16 blocks | over the least | bytes over the link |"
      print "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
      for (i = 1; i <= count; ++i) {
        t = order[i]
        printf "| %d | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", t, shown(nccl[t]), shown(two_shot[t]),
          shown(ours[t]), how[t], ratio(nccl[t], ours[t]),
          shown(dependent[t]), shown(sixteen[t]), ratio(sixteen[t], ours[t]), shown(bytes[t])
      }
    }' "${files[@]}"
}
if [ "$count" -gt 1 ]; then
  common=(--hidden 8192 --inner $((count * 4096)) --timeout 10)
  with=()
  table() {
    local name=$1; shift
    if [ $dry = 1 ]; then echo "would run: ${with[*]+${with[*]} }$gpu bench $* > $name.txt"; return 0; fi
    timeout 150 ${with[@]+"${with[@]}"} "$gpu" bench "$@" --json "$results/$name.json" \
      > "$results/$name.txt" 2> "$results/$name.err" \
      || { failures=$((failures + 1)); echo "FAILED: bench $*"; tail -n 3 "$results/$name.err"; }
    cat "$results/$name.txt"
  }
  table fused --launch fork --ranks "$n" "${common[@]}" --tokens 1,8,64,256,1024,4096,8192 \
    --transport peer --block-list 8,16,32,64,128 --methods nccl,nccl-rs-ag,fused,fused-push \
    --nccl-id-file "$results/nccl.id"
  table dependent --launch fork --ranks "$n" "${common[@]}" --tokens 1,8,64,256,1024,4096,8192 \
    --transport peer --block-list 8,32,64,128 --methods fused,fused-push --dependent-launch
  table whole --launch fork --ranks "$n" "${common[@]}" --tokens 64,256,1024,4096,8192 \
    --block-list 8,16,128 --methods product,product+nccl,product+fused,waves2,waves4,waves8
  table pypto --launch fork --ranks "$n" "${common[@]}" --tokens 8,64,256,1024 \
    --block-list 128 --methods product,product+nccl,pypto --sums owner
  table pypto-everywhere --launch fork --ranks "$n" "${common[@]}" --tokens 8,64,256,1024 \
    --block-list 128 --methods pypto --sums everywhere
  if [ $multimem = 1 ] && [ -z "$refused" ]; then
    with=("${with_multicast[@]}")
    table fused-multimem --launch fork --ranks "$n" "${common[@]}" --tokens 8,64,256,1024,4096 \
      --transport multimem --block-list 8,16,32,64,128 --methods fused
    with=()
  fi
  if [ $dry = 0 ] && python3 -c 'import torch' 2> /dev/null; then
    timeout 150 "${tr[@]:0:1}" --nproc-per-node "$n" "$here/torch_baseline.py" \
      2> "$results/torch.err" | tee "$results/torch.txt"
  fi
  [ $dry = 1 ] || summarise | tee "$results/table.txt"
fi

# 5. compute-sanitizer on a small case.
if command -v compute-sanitizer > /dev/null; then
  for tool in memcheck racecheck; do
    step 120 0 compute-sanitizer --tool "$tool" --error-exitcode 9 "$gpu" run --virtual-ranks 2 \
      --tokens 3 --hidden 256 --inner 32 --calls 1 --blocks 2
    step 120 0 compute-sanitizer --tool "$tool" --error-exitcode 9 "$gpu" run --virtual-ranks 2 \
      --protocol pypto --tokens 9 --hidden 256 --inner 128 --calls 1 --blocks 2
  done
  [ "$count" -gt 1 ] && step 120 0 compute-sanitizer --tool memcheck --error-exitcode 9 "$gpu" run \
    --launch one-process --ranks "$n" --tokens 3 --hidden 256 --inner $((n * 16)) --calls 1 --blocks 2
fi
echo "$steps steps, $failures failed" | tee "$results/summary.txt"
[ $failures -eq 0 ]
