#!/bin/sh
# install_test.sh BUILD SOURCE CXX: installs into a folder, looks for all that should be there, builds a
# project with find_package(ringfence), runs it and the installed program.
set -eu
build=$1 source=$2 cxx=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/prefix" > "$work/log"
for file in bin/ringfence share/man/man1/ringfence.1 share/bash-completion/completions/ringfence \
  share/zsh/vendor-completions/_ringfence share/fish/vendor_completions.d/ringfence.fish \
  share/ringfence/profiles/h200.toml share/ringfence/schema/fuzz.schema.json \
  share/doc/ringfence/copyright include/ringfence/verify/compare.hpp; do
  [ -s "$work/prefix/$file" ] || { echo "not installed: $file"; cat "$work/log"; exit 1; }
done
# The installed text may not lead back to where it was built.
if grep -rIl -e "$source" -e "$build" "$work/prefix"; then echo "these name the source's folder"; exit 1; fi
"$work/prefix/bin/ringfence" --version
"$work/prefix/bin/ringfence" simulate --profile "$work/prefix/share/ringfence/profiles/h200.toml" \
  --ranks 2 --tokens 8 --blocks 1 --hidden 64 > "$work/simulated"
mkdir "$work/consumer"
cp "$source"/tests/package/consumer/* "$work/consumer"
(cd "$work/prefix/include/ringfence" && find verify -name '*.hpp' | sort |
  sed 's/.*/#include "&"/') > "$work/consumer/headers.hpp"
cmake -G Ninja -S "$work/consumer" -B "$work/built" -DCMAKE_PREFIX_PATH="$work/prefix" \
  -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_CXX_FLAGS='-Wall -Wextra -Werror' > "$work/log" 2>&1 &&
  cmake --build "$work/built" > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
cd "$work"
[ "$(built/consumer)" = equal ]
# The reporter: a row for each tensor, and of a wrong one the element.
built/doctests --reporters=numerics --no-colors=true > reported
grep -Eq '^ *out +bf16 +192 +0 .*ok$' reported && grep -Eq '^ *lost +bf16 +192 +1 ' reported &&
  grep -q 'lost: worst \[1, 5\]' reported || { cat reported; exit 1; }
