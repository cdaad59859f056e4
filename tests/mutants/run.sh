#!/bin/sh
# run.sh BUILD [NUMBER...]: each mutant (or those named) through the tests, those first that its
# entry names, until one fails. Prints who killed it; exit status 1 if more than two live, or if the
# tests fail without any.
set -u
build=$1
shift
list=tests/mutants/mutants.txt
seconds=300  # a test that takes longer has noticed

# What check does not explore yet (tests/oracle/oracle_test.cpp).
less="--without forms --without loops"

# The command of a test.
tests_of() {
  case $1 in
    differential) echo "mutated_check_differential 1 4000" ;;
    oracle) echo "mutated_kernel_oracle 1 150 --schedules 100 $less" ;;
    *) echo "mutated_test_$1" ;;
  esac
}
all="machine litmus differential verify check cases oracle"

# Whether some test notices; says which.
noticed() {  # NUMBER FIRST
  for t in $2 $all; do
    # shellcheck disable=SC2046  # a command and its arguments
    RINGFENCE_MUTANT=$1 timeout "$seconds" "$build"/$(tests_of "$t") >/dev/null 2>&1 || {
      killer=$t
      return 0
    }
  done
  return 1
}

numbers=${*:-$(grep -c '^= ' $list | xargs seq 1)}
if [ $# -eq 0 ] && noticed 0 machine; then
  echo "the tests fail without a mutant: $killer"
  exit 1
fi
live=0
for n in $numbers; do
  entry=$(grep '^= ' $list | sed -n "${n}s/^= //p")
  name=${entry%, of *}
  if noticed "$n" "${entry##*, of }"; then
    printf '%2d dies by %-12s %s\n' "$n" "$killer" "$name"
  else
    printf '%2d LIVES            %s\n' "$n" "$name"
    live=$((live + 1))
  fi
done
echo "$live live"
[ "$live" -le 2 ]
