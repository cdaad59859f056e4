#!/usr/bin/perl
# apply.pl LIST SOURCE_ROOT FILE OUTPUT: FILE with the mutants of the list in it, each asleep until
# the environment names it: RINGFENCE_MUTANT=NUMBER. Fails where the list and the file disagree.
use strict;
use warnings;

my ($list, $root, $file, $output) = @ARGV;
open(my $in, '<', "$root/$file") or die "$root/$file: $!\n";
my $text = do { local $/; <$in> };
my ($number, $at, $from) = (0, '', '');
my %applied;
open(my $l, '<', $list) or die "$list: $!\n";
while (my $line = <$l>) {
  chomp $line;
  if ($line =~ /^= /) {
    ++$number;
  } elsif ($line =~ /^@ (.*)/) {
    $at = $1;
  } elsif ($line =~ /^- (.*)/) {
    $from = $1;
  } elsif ($line =~ /^\+ (.*)/ && $at eq $file) {
    my $to = $1;
    my $found = () = $text =~ /\Q$from\E/g;
    die "$list: mutant $number: '$from' stands $found times in $file; expected once\n"
      if $found != 1;
    die "$list: mutant $number: no MUTANT in '$to'\n" if $to !~ /\bMUTANT\b/;
    $to =~ s/\bMUTANT\b/ringfence_mutant($number)/g;
    $text =~ s/\Q$from\E/$to/;
  }
}
my $head = <<'HEAD';
#ifndef RINGFENCE_MUTANT
#define RINGFENCE_MUTANT
#include <cstdlib>
static bool ringfence_mutant(int number) {
  static const char* const chosen = std::getenv("RINGFENCE_MUTANT");
  static const int n = chosen == nullptr ? 0 : std::atoi(chosen);
  return n == number;
}
#endif
HEAD
open(my $out, '>', $output) or die "$output: $!\n";
print $out $head, "#line 1 \"$file\"\n", $text;
close($out) or die "$output: $!\n";
