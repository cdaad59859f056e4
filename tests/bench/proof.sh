#!/bin/sh
# What `check` and `relax` prove of kernels, in how many executions and how long: a table with its goals.
# ./dev bench ends with it. Times are of the whole command. Exit status 1 if a verdict is another one
# than the row expects; a time beyond its goal is told ("over") and no failure.
#
#   tests/bench/proof.sh RINGFENCE [CASE...]    each CASE, a case file, gets a row that expects PASS
set -u

if [ $# -eq 0 ] || [ ! -x "$1" ]; then
  echo 'proof.sh: RINGFENCE, the program, is missing: tests/bench/proof.sh RINGFENCE [CASE...]' >&2
  exit 2
fi
program=$(readlink -f "$1")
shift
here=$(dirname "$(readlink -f "$0")")
cases=$here/../cases
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 4' INT TERM
failed=0

now() { date +%s.%N; }
since() { awk -v a="$1" -v b="$(now)" 'BEGIN { printf "%.2f", b - a }'; }

# within FIGURE GOAL: true where there is no goal (-) or it is reached.
within() { [ "$2" = - ] || awk -v f="$1" -v g="$2" 'BEGIN { exit f > g }'; }

# row LABEL VERDICT GOAL ARGUMENT...: one command of check. GOAL: -, seconds, or (500x) executions. The
# second column has the executions of strict, stream and coherent, or what else came of the mode; the
# verdict is that of the claimed modes.
row() {
  label=$1 verdict=$2 goal=$3
  shift 3
  start=$(now)
  (cd "$work" && "$program" check --no-remedies "$@") >"$work/out" 2>"$work/err"
  took=$(since "$start")
  executions=$(awk '$1 ~ /^(strict|stream|coherent)$/ && $2 ~ /^(yes|no)$/ {
      printf "%s%s", n++ ? ", " : "", $3 == "PASS" ? $4 : $3 }' "$work/out")
  got=$(sed -n 's/^\(PASS\|FAIL\|UNKNOWN\)[:,].*/\1/p' "$work/out" | tail -n 1)
  [ -n "$got" ] || got=$(head -c 60 "$work/err" | head -n 1)
  note=
  [ "$got" = "$verdict" ] || { note="not $verdict"; failed=1; }
  case $goal in
    *x) within "$(echo "$executions" | tr -d ' ' | tr , '\n' | sort -n | tail -n 1)" "${goal%x}" ;;
    *) within "$took" "$goal" ;;
  esac || note="${note:+$note, }over"
  echo "| $label | ${executions:--} | $got | $took | $goal | $note |"
}

# at_ranks CASE R: prints the path of a copy of a case file for R ranks, with its kernels where they are.
at_ranks() {
  sed -e "s/^ranks = .*/ranks = $2/" -e "s|^ptx = \"|&$(dirname "$1")/|" "$1" >"$work/$2-${1##*/}"
  echo "$work/$2-${1##*/}"
}

# compiled NAME R GOAL LABEL: a case of tests/cases/protocols with two calls.
compiled() {
  row "$4, R $2" PASS "$3" --case "$(at_ranks "$cases/protocols/$1.toml" "$2")" --calls 2
}

echo '| subject | executions (strict, stream, coherent) | verdict | seconds | goal | |'
echo '| --- | --- | --- | --- | --- | --- |'
for ranks in 2 3 4 8; do
  row "seq-thread, R $ranks" PASS 0.2 --case "$(at_ranks "$cases/files/seq-thread.toml" $ranks)"
done
# cas-slots.toml has room for four ranks, and a number of vectors that eight do not divide.
sed -e 's/^bytes = 16$/bytes = 32/' -e 's/^bytes = 192$/bytes = 256/' -e 's/{u32 = 12}/{u32 = 16}/' \
  -e "s|^ptx = \"|&$cases/protocols/|" "$cases/protocols/cas-slots.toml" >"$work/cas-slots.toml"
for ranks in 2 4 8; do
  sed "s/^ranks = .*/ranks = $ranks/" "$work/cas-slots.toml" >"$work/cas-slots-$ranks.toml"
  row "cas-slots, compiled, two calls, R $ranks" PASS 1 --case "$work/cas-slots-$ranks.toml"
done
row 'tokenweave-peer-2, all modes' PASS 5 --case "$cases/files/tokenweave-peer-2.toml"
for ranks in 2 4; do
  compiled two-shot-all-reduce $ranks 30 "two-shot in the style of PyTorch's, two blocks, two calls"
done
row 'two-shot with epochs, two launches a call, two blocks, two calls' PASS 60 \
  --case "$cases/files/two-shot.toml"
row 'pypto, compiled, R 2' PASS - --case "$cases/protocols/pypto.toml"
small=$cases/files/pypto-small-2.toml
row "pypto's kernel with wgmma, R 2, one tile (PTX of the build)" PASS - --case "$small"
sizes='--ranks 3 --calls 2 --inner 66 --hidden 72 --blocks 1 --tokens 3'
# shellcheck disable=SC2086  # the sizes are words
row 'epoch-inbox, R 3, two calls' PASS 10 --protocol epoch-inbox $sizes
# shellcheck disable=SC2086
row 'multimem-counter, R 3, two calls' PASS 10 --protocol multimem-counter $sizes
row 'mod3-flag, R 2, two blocks, three calls' PASS 500x --protocol mod3-flag --ranks 2 --calls 3 \
  --blocks 2 --tokens 2 --hidden 8 --inner 24
for name in epoch-inbox mod3-flag; do
  for ranks in 2 3 4; do
    compiled $name $ranks - "$name, compiled, two calls"
  done
done
for ranks in 2 3; do
  compiled multimem-counter $ranks - 'multimem-counter, compiled, two calls'
done
for file; do
  row "$(basename "$file" .toml)" PASS - --case "$(readlink -f "$file")"
done

# The zoo: every file has the verdict of its name; the slowest one's time against the goal of each.
slowest=0 wrong=
for file in "$cases"/../zoo/*.toml; do
  start=$(now)
  (cd "$work" && "$program" check --no-remedies --case "$file") >"$work/out" 2>&1
  status=$?
  took=$(since "$start")
  within "$took" "$slowest" || slowest=$took
  case $file in *-fixed.toml) expected=0 ;; *) expected=1 ;; esac
  [ $status -eq $expected ] || { wrong="$wrong ${file##*/}: $status"; failed=1; }
done
count=$(find "$cases/../zoo" -name '*.toml' | wc -l)
within "$slowest" 30 || wrong="$wrong over"
echo "| zoo, $count files, as their names say | | ${wrong:-as named} | at most $slowest | 30 | |"

slowest=0 wrong=
for file in "$cases"/../zoo/*-fixed.toml; do
  start=$(now)
  (cd "$work" && "$program" relax --case "$file") >"$work/out" 2>&1
  status=$?
  took=$(since "$start")
  within "$took" "$slowest" || slowest=$took
  [ $status -eq 0 ] || { wrong="$wrong ${file##*/}: $status"; failed=1; }
  # What the column "by" says of a row that the search did not decide is explained below the table.
  if grep -q '^fuzz: a limit ended' "$work/out"; then wrong="$wrong ${file##*/}: a row by fuzz" failed=1; fi
done
within "$slowest" 60 || wrong="$wrong over"
echo "| relax of the zoo's fixed files | | ${wrong:-all by check} | at most $slowest | 60 | |"

# One search shared by two threads, in turns, against one alone.
echo
echo 'jobs 1, jobs 2 (s), the same executions:'
for turn in 1 2 3; do
  line=
  for jobs in 1 2; do
    start=$(now)
    # 3: the limit ends it, as it should.
    (cd "$work" && "$program" check --protocol multimem-counter --ranks 2 --blocks 2 --calls 2 --tokens 2 \
      --hidden 8 --inner 24 --boundary strict --arrivals order --executions 12000 --jobs $jobs) \
      >"$work/out" 2>&1
    line="$line $(since "$start")"
  done
  echo "$turn:$line" | awk '{ printf "%s %.2f %.2f: %.2f x\n", $1, $2, $3, $2 / $3 }'
done
exit $failed
