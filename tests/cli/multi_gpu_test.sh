#!/bin/bash
# multi_gpu_test.sh SOURCE: cuda/bench/multi_gpu.sh from start to archive, over programs that stand in
# for the GPUs', so here without any: what it asks for, what it concludes, and what it sends back.
set -euo pipefail
# Where the owner of a machine has switched multicast off, the switches are not touched, for stand-ins
# neither.
for name in NCCL_NVLS_ENABLE TORCH_SYMM_MEM_DISABLE_MULTICAST NVSHMEM_DISABLE_NVLS; do
  [ -z "${!name+x}" ] || { echo "multi_gpu_test.sh: not run: $name is set here"; exit 77; }
done
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
export WORK=$work

# Logs what it is asked and whether the switches are set; refuses multimem where one is, as the
# product does. MULTIMEM=fails: its results are wrong. MULTIMEM=rounds: they are right, in other bits.
cat > "$work/bin/ringfence-gpu" <<'STUB'
#!/bin/bash
switches=${NCCL_NVLS_ENABLE-}${TORCH_SYMM_MEM_DISABLE_MULTICAST-}${NVSHMEM_DISABLE_NVLS-}
echo "[${switches}] $*" >> "$WORK/asked"
[ "$1" != info ] || { echo "transports: ${TRANSPORTS:-peer, multimem}"; exit 0; }
multimem=0 bits=peer arguments=("$@")
for i in "${!arguments[@]}"; do
  case ${arguments[$i]} in
    multimem) multimem=1 ;;
    --die-rank) exit 1 ;;
    --output) output=${arguments[$i + 1]} ;;
  esac
done
if [ $multimem = 1 ]; then
  [ -z "$switches" ] || exit 2
  [ "${MULTIMEM-}" != fails ] || exit 1
  [ "${MULTIMEM-}" != rounds ] || bits=other
fi
[ -z "${output-}" ] || echo $bits > "$output"
if [ "$1" = bench ]; then
  echo '# tokens         bytes  blocks  dtype  method               time(us)      GB/s  x baseline   x bound  #wrong'
  case "$*" in
    *--dependent-launch*)
      echo '   64   1048576   32   bf16  fused         9.00  144  -  2.25  0'
      echo '   64   1048576   32   bf16  fused-push    7.30  144  -  2.33  0' ;;
    *nccl,nccl-rs-ag*)
      echo '   64   1048576    0   bf16  nccl         17.00   61  -  5.50  N/A'
      echo '   64   1048576    0   bf16  nccl-rs-ag    1.00   61  -  5.50  N/A'
      echo '   64   1048576   16   bf16  fused        10.00  102  1.70  3.20  0'
      echo '   64   1048576   16   bf16  fused-push   11.00  102  1.70  3.30  0'
      echo '   64   1048576  128   bf16  fused-push    8.00  126  2.11  2.50  0'
      echo ' 8192 134217728   16   bf16  fused       400.00  320  -  1.00  N/A' ;;
  esac
fi
echo "out       bf16     64          0       exact"
STUB
cat > "$work/bin/nvidia-smi" <<'STUB'
#!/bin/sh
[ "$1" != -L ] || printf 'GPU 0\nGPU 1\n'
STUB
for name in mpirun torchrun compute-sanitizer; do printf '#!/bin/sh\nexit 0\n' > "$work/bin/$name"; done
chmod +x "$work"/bin/*
export PATH=$work/bin:$PATH

fail() { echo "multi_gpu_test.sh: $*" >&2; exit 1; }
# run NAME WANTED_STATUS OPTION...: into the folder NAME, output to NAME.out.
run() {
  local name=$1 want=$2 status=0; shift 2
  : > "$work/asked"
  bash "$source/cuda/bench/multi_gpu.sh" --executable "$work/bin/ringfence-gpu" "$@" "$work/$name" \
    > "$work/$name.out" 2>&1 || status=$?
  [ $status -eq "$want" ] || { cat "$work/$name.out"; fail "$name: status $status, wanted $want"; }
}
holds() { tar tzf "$work/$1/all.tgz" | grep -x "./$2" > /dev/null; }

run plain 0
for file in summary.txt steps.log machine.txt fused.txt dependent.txt whole.txt pypto.txt table.txt; do
  holds plain $file || fail "the archive lacks $file"
done
grep -Fxq '| 64 | 17.0 | - | 8.0 | fused-push, 128 blocks | 2.12 | 7.3 | 10.0 | 1.25 | 3.2 |' "$work/plain/table.txt" ||
  fail "table.txt has not the least of each way: $(cat "$work/plain/table.txt")"
grep -Fxq '| 8192 | - | - | 400.0 | fused, 16 blocks | - | - | 400.0 | 1.00 | 400.0 |' "$work/plain/table.txt" ||
  fail "table.txt lacks what only one way has: $(cat "$work/plain/table.txt")"
! holds plain multimem.txt || fail "multimem.txt, which nobody asked for"
grep -q ' 0 failed' "$work/plain/summary.txt" || fail "the summary counts failures"
! grep -q '^\[\]' "$work/asked" || fail "a program was started without the switches"

run all 0 --multimem
holds all multimem.txt || fail "the archive lacks multimem.txt"
[ "$(grep -c ': ok; the same bits as peer' "$work/all/multimem.txt")" -eq 6 ] || fail "not six verdicts"
[ "$(grep -c 'bit for bit' "$work/all/multimem.txt")" -eq 4 ] || fail "not four exact ones"
holds all multimem-bf16-normal.safetensors && fail "tensors without a difference are kept"
! grep '^\[\]' "$work/asked" | grep -qv 'multimem\| info' || fail "multicast was allowed elsewhere"

MULTIMEM=rounds run rounds 0 --multimem
grep -q 'bf16 normal, .*: ok; other bits than peer' "$work/rounds/multimem.txt" || fail "other bits are not told"
holds rounds multimem-bf16-normal.safetensors || fail "tensors that differ are not sent"

MULTIMEM=fails run wrong 1 --multimem
[ "$(grep -c ': FAILED' "$work/wrong/multimem.txt")" -eq 6 ] || fail "wrong results pass"
holds wrong multimem.txt || fail "no archive of a failure"

TRANSPORTS="peer (transport multimem: no multicast)" run absent 1 --multimem
grep -q 'not verified: peer (transport multimem: no multicast)' "$work/absent/multimem.txt" || fail "no reason"

NCCL_NVLS_ENABLE=0 run forbidden 2 --multimem
grep -q 'NCCL_NVLS_ENABLE is set' "$work/forbidden.out" || fail "no reason for the refusal"
[ ! -s "$work/asked" ] || fail "something was started all the same"
NCCL_NVLS_ENABLE=1 run allowed 2
[ ! -s "$work/asked" ] || fail "something was started where multicast was not off"

run dry 0 --multimem --dry-run
[ ! -s "$work/asked" ] || fail "a dry run runs"
for tokens in 1,8,64,256,1024,4096,8192; do
  grep -q "would run: .* bench .*--tokens $tokens .* > fused.txt" "$work/dry.out" || fail "the table lacks tokens"
done
grep -q 'would run: env -u NCCL_NVLS_ENABLE .* --transport multimem' "$work/dry.out" || fail "it does not say what it would run"
