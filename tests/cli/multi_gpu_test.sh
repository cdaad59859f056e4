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
for file in summary.txt steps.log machine.txt fused.txt dependent.txt whole.txt pypto.txt; do
  holds plain $file || fail "the archive lacks $file"
done
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
grep -q 'would run: env -u NCCL_NVLS_ENABLE .* --transport multimem' "$work/dry.out" || fail "it does not say what it would run"
