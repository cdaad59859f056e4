#!/bin/bash
# Builds ringfence-gpu, and with --tests the CUDA tests, without CMake: for bare GPU machines that
# have nvcc, g++ and the header-only libraries (Eigen, CLI11, fmt, nlohmann-json; doctest for tests).
#
#   build.sh [--tests] OUTPUT_FOLDER [INCLUDE_FOLDER...]
#
# Exit status: 0, 1 where the program was not built, 3 where only the tests were not.
#
# The preset `cuda` is the ordinary way to build; this script compiles the same sources with the same
# flags, side by side on all cores.
set -euo pipefail
tests=0
if [ "${1:-}" = --tests ]; then tests=1; shift; fi
out=$(mkdir -p "$1" && cd "$1" && pwd); shift
root=$(cd "$(dirname "$0")/../.." && pwd)
cuda=$(dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")")
includes=("-I$root" "-I$cuda/include")
for folder in "$@"; do includes+=("-I$folder"); done
cd "$root"
arch=(-gencode=arch=compute_90a,code=sm_90a)
defines=(-DFMT_HEADER_ONLY "-DRINGFENCE_PTX_DIR=\"$out/ptx\"" "-DRINGFENCE_SOURCE_DIR=\"$root\"")
cxx=(g++ -std=c++20 -O2 -DNDEBUG -Wall -Wextra -ffp-contract=off "${defines[@]}" "${includes[@]}")
nv=(nvcc -std=c++20 -O3 -DNDEBUG --expt-relaxed-constexpr "${arch[@]}" "-I$root")
jobs=() names=()
start() { # start NAME COMMAND...
  names+=("$1"); shift
  "$@" > "$out/${names[-1]}.log" 2>&1 & jobs+=($!)
}
kernels="tokenweave tokenweave_bf16 tokenweave_fp16 push pypto unfused"
for k in $kernels; do start "$k" "${nv[@]}" -c "cuda/kernels/$k.cu" -o "$out/$k.cu.o"; done
start bandwidth "${nv[@]}" -c cuda/bench/bandwidth.cu -o "$out/bandwidth.cu.o"
# verify/toml.cpp is for case files, and needs toml++.
for f in cuda/*.cpp cuda/cli/*.cpp cuda/host/*.cpp cuda/bench/*.cpp $(ls verify/*.cpp | grep -v /toml.cpp); do
  name=$(echo "${f%.cpp}" | tr / _)
  start "$name" "${cxx[@]}" -c "$f" -o "$out/$name.o"
done
if [ $tests = 1 ]; then
  mkdir -p "$out/ptx" "$out/tests"
  for k in tokenweave_bf16 tokenweave_fp16 push pypto; do
    start "ptx_$k" bash -c "nvcc -std=c++20 -O3 --expt-relaxed-constexpr -I'$root' -arch=compute_90a \
      -ptx -o '$out/ptx/$k.ptx' cuda/kernels/$k.cu && nvcc ${arch[*]} -Xptxas -v -cubin \
      -o '$out/ptx/$k.cubin' '$out/ptx/$k.ptx' 2> '$out/ptx/$k.log'"
  done
  start tests_every_pair "${nv[@]}" -c tests/cuda/every_pair.cu -o "$out/tests/tests_every_pair.o"
  for f in tests/cuda/*.cpp tests/support/*.cpp; do
    name=tests_$(basename "${f%.cpp}")
    start "$name" "${cxx[@]}" -c "$f" -o "$out/tests/$name.o"
  done
fi
failed=0 tests_failed=0
for i in "${!jobs[@]}"; do
  if ! wait "${jobs[$i]}"; then
    case ${names[$i]} in tests_*) tests_failed=1 ;; *) failed=1 ;; esac
    echo "build.sh: ${names[$i]} failed" >&2
    grep -E "error" "$out/${names[$i]}.log" | head -5 >&2 || true
  fi
done
[ $failed = 0 ] || exit 1
libraries=("-L$cuda/lib64" "-L$cuda/targets/x86_64-linux/lib" -lcublasLt -lcudart_static -ldl -lrt
           -lpthread "-Wl,-rpath,$cuda/lib64:$cuda/targets/x86_64-linux/lib")
objects=$(ls "$out"/*.o | grep -v cuda_cli_main.o)
# shellcheck disable=SC2086
g++ -o "$out/ringfence-gpu" $objects "$out/cuda_cli_main.o" "${libraries[@]}"
[ $tests_failed = 0 ] || exit 3 # the program is there, the tests are not
if [ $tests = 1 ]; then g++ -o "$out/test_cuda" $objects "$out"/tests/*.o "${libraries[@]}"; fi
