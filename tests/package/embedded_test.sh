#!/bin/sh
# embedded_test.sh BUILD SOURCE CXX: a project that adds ringfence as a folder configures, and has
# the program and the library but no tests.
set -eu
source=$2 cxx=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake -G Ninja -S "$source/tests/package/embedded" -B "$work" -DRINGFENCE="$source" \
  -DCMAKE_CXX_COMPILER="$cxx" > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
! cmake --build "$work" --target help | grep -q '^test_cli:'
