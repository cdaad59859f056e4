#!/bin/sh
# Compiles the kernels of this folder to traces/ptx, each with the checksum of its source in the
# first line. Needs nvcc; the tests need only its output.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=$here/../../../traces/ptx
cd "$here"
for source in *.cu; do
  name=${source%.cu}
  nvcc -ptx -arch=sm_90a -lineinfo -std=c++17 "$source" -o "$out/$name.tmp"
  { echo "// tests/ptx/kernels/$source cksum $(cksum < "$source" | cut -d' ' -f1)"
    # Debug names hold a hash of the folder.
    sed -e "s|\"$here/|\"tests/ptx/kernels/|" -e 's/, function_name.*//' \
      -e '/^[[:space:]]*\.section/,$d' "$out/$name.tmp"
  } > "$out/$name.ptx"
  rm "$out/$name.tmp"
done
