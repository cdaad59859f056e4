#!/bin/bash
# help_forms_test.sh BUILD ...: the completions that the program wrote are scripts of their shells
# and know what --help says; the manual page has every subcommand and no roff error.
set -eu
folder=$1/emulator/cli
program=$folder/ringfence
fail() { echo "$*"; exit 1; }

# shellcheck disable=SC1090
source "$folder/ringfence.bash"
answers() {  # WORD...: what is offered for the last
  COMP_WORDS=("$@")
  COMP_CWORD=$(($# - 1))
  COMPREPLY=()
  _ringfence
  echo "${COMPREPLY[*]}"
}
[ "$(answers ringfence fu)" = fuzz ] || fail "bash: no subcommand"
[ "$(answers ringfence fuzz --strat)" = --strategy ] || fail "bash: no option"
[ "$(answers ringfence fuzz --strategy pc)" = pct ] || fail "bash: no value"
[ "$(answers ringfence -v check --resu)" = --resume ] || fail "bash: no option after one in front"
[ -z "$(answers ringfence check --strat)" ] || fail "bash: another subcommand's option"

# Every long option that --help has.
for subcommand in $("$program" --help | sed -n '/^Subcommands:/,$s/^  \([a-z]\+\) .*/\1/p'); do
  grep -q "SS ringfence $subcommand\$" "$folder/ringfence.1" || fail "manual: no $subcommand"
  for option in $("$program" "$subcommand" --help | grep -oE '^  (-[a-z],)?--[a-z-]+' | grep -oE -- '--.*'); do
    [[ " $(answers ringfence "$subcommand" "$option") " == *" $option "* ]] || fail "bash: $subcommand $option"
    sed -n "/^    $subcommand)/,/;;/p" "$folder/ringfence.zsh" | grep -q -- "'\*$option\[" ||
      fail "zsh: $subcommand $option"
    grep -q -- "from $subcommand' -l ${option#--} " "$folder/ringfence.fish" || fail "fish: $subcommand $option"
  done
done
[ -n "${option-}" ] || fail "--help has no options that this test sees"

left=
if command -v zsh > /dev/null; then zsh -n "$folder/ringfence.zsh"; else left="$left zsh"; fi
if command -v fish > /dev/null; then fish -n "$folder/ringfence.fish"; else left="$left fish"; fi
if command -v groff > /dev/null; then
  said=$(groff -man -ww -Tutf8 "$folder/ringfence.1" 2>&1 > /dev/null)
  [ -z "$said" ] || fail "manual: $said"
else
  left="$left groff"
fi
[ -z "$left" ] || echo "not run: what needs$left, which are not installed"
