#!/bin/sh
# standard_headers.pl tells of every name that no header accounts for. $1: this folder.
set -eu
here=$1
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
cd "$tree"
printf 'vector: vector\nmap: map pair\nutility: pair\n' > names.txt
mkdir room
printf '#pragma once\n#include <vector>\n' > room/low.hpp
failed=0
# check NAME CONTENT COMPLAINT (none: it is right)
check() {
  printf '%s\n' "$2" > room/high.hpp
  status=0
  said=$(perl "$here/standard_headers.pl" names.txt room/high.hpp 2>&1) || status=$?
  if [ -z "$3" ] && [ "$status" -eq 0 ] && [ -z "$said" ]; then return; fi
  if [ -n "$3" ] && [ "$status" -ne 0 ] && [ "$said" = "$3" ]; then return; fi
  printf '%s: status %s, said:\n%s\n' "$1" "$status" "$said"
  failed=1
}
check "its own include" '#include <vector>
std::vector<int> v;' ''
check "that of a header of the tree" '#include "room/low.hpp"
std::vector<int> v;' ''
check "one of two that would do" '#include <utility>
std::pair<int, int> p;' ''
check "none" 'std::vector<int> v;' 'room/high.hpp: uses std::vector and includes no <vector>'
check "another one" '#include <map>
std::vector<int> v;' 'room/high.hpp: uses std::vector and includes no <vector>'
check "none of two" 'std::pair<int, int> p;' 'room/high.hpp: uses std::pair and includes no <map> or <utility>'
check "a name that the list lacks" '#include <regex>
std::regex r;' 'room/high.hpp: std::regex: say in names.txt which header it is of'
check "in a comment and in a text" '// std::vector
/* std::pair
*/ const char* t = "std::vector \" std::pair";' ''
exit $failed
