#!/bin/sh
# ./dev layers tells of every include that goes the wrong way, and of arrows that are not there.
# $1: the tree's root. Each tree here is made to be wrong in one way.
set -eu
root=$1
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
cp "$root/dev" "$tree/dev"
cd "$tree"
git init -q .
mkdir -p emulator/low emulator/high verify
echo '#pragma once' > verify/v.hpp
echo '#include "verify/v.hpp"' > emulator/low/l.hpp
echo '#include "emulator/low/l.hpp"' > emulator/high/h.cpp
git add -A

failed=0
# check NAME WORDS-OF-THE-COMPLAINT (none: it is right)
check() {
  status=0
  said=$(RINGFENCE_LAYERS=$layers ./dev layers 2>&1) || status=$?
  if [ -z "$2" ] && [ "$status" -eq 0 ] && [ -z "$said" ]; then return; fi
  if [ -n "$2" ] && [ "$status" -ne 0 ] && printf '%s' "$said" | grep -qF -- "$2"; then return; fi
  printf '%s: status %s, said:\n%s\n' "$1" "$status" "$said"
  failed=1
}

right='
verify
emulator/low verify
emulator/high emulator/low'
layers=$right
check "a list that is right" ""
layers=$(printf '%s' "$right" | sed 's,^emulator/high.*,emulator/high,')
check "an include without an arrow" "emulator/high/h.cpp:1: emulator/high may not include emulator/low"
layers="$right verify"
check "an arrow without an include" "layers: emulator/high -> verify: no include needs it"
layers=$(printf '%s' "$right" | sed '/^verify/d')
check "an arrow to a room that is not listed" "emulator/low -> verify: it does not stand above"
layers=$(printf '%s' "$right" | sed '/high/d')
check "a room that is not listed" "the room emulator/high is missing"
# A cycle: whatever the order, one of the two arrows points down.
echo '#include "emulator/high/h.hpp"' > emulator/low/l.cpp
git add -A
layers='
verify
emulator/low verify emulator/high
emulator/high emulator/low'
check "a cycle" "layers: emulator/low -> emulator/high: it does not stand above"
layers='
verify
emulator/high emulator/low
emulator/low verify emulator/high'
check "the cycle the other way round" "layers: emulator/high -> emulator/low: it does not stand above"
layers=$right
mkdir -p emulator/cli
echo '  const auto r = schedule::search(workers, spec);' > emulator/cli/fuzz.cpp
rm emulator/low/l.cpp
git add -A
check "a search that the command line drives" "emulator/cli/fuzz.cpp:1: emulator/cli drives no search"
exit $failed
