#!/bin/sh
# library_test.sh BUILD SOURCE CXX: the examples of docs/library.md, compiled against what is
# installed and run; and each public header alone, which takes in the standard library and no other.
set -eu
build=$1 source=$2 cxx=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/prefix" > "$work/log"
include=$work/prefix/include
[ "$(ls "$include/ringfence"/*.hpp | wc -l)" -ge 6 ] || { echo "public headers are missing"; exit 1; }
for header in "$include"/ringfence/*.hpp; do
  echo "#include <ringfence/${header##*/}>" > "$work/alone.cpp"
  "$cxx" -std=c++20 -fsyntax-only -Wall -Wextra -Werror -I "$include" "$work/alone.cpp" ||
    { echo "not alone: $header"; exit 1; }
  if "$cxx" -std=c++20 -M -I "$include" "$work/alone.cpp" | tr -d '\\' | tr ' ' '\n' |
    grep -E '/(fmt|nlohmann|boost|Eigen|toml|emulator|verify)/'; then
    echo "$header includes these"; exit 1
  fi
done
cp -r "$source/docs/examples" "$work/examples"
cmake -G Ninja -S "$work/examples/library" -B "$work/built" -DCMAKE_PREFIX_PATH="$work/prefix" \
  -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_CXX_FLAGS='-Wall -Wextra -Werror' > "$work/log" 2>&1 &&
  cmake --build "$work/built" > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
ctest --test-dir "$work/built" --output-on-failure --no-tests=error
