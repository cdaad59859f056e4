#!/bin/sh
# fit.sh LIST SOURCE_ROOT: whether each mutant of the list stands in its source, once.
here=$(dirname "$0")
status=0
for file in $(sed -n 's/^@ //p' "$1" | sort -u); do
  perl "$here/apply.pl" "$1" "$2" "$file" /dev/null || status=1
done
exit "$status"
