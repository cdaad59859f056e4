# standard_headers.pl NAMES HEADER...: whether each header includes the standard headers whose names it
# uses, itself or by way of headers of this tree. What the standard's own include of each other, and
# whoever includes a header before, does not count: lint compiles single headers behind a precompiled
# header of the standard library (tests/cmake/RingfenceLint.cmake), which hides that.
use strict;
use warnings;

my %given_by;  # name -> its headers
my $names = shift or die "usage: standard_headers.pl NAMES HEADER...\n";
open my $table, '<', $names or die "$names: $!\n";
while (<$table>) {
  next if /^\s*(#|$)/;
  my ($header, $list) = /^(\S+):\s*(.*)$/ or die "$names:$.: not 'header: names'\n";
  push @{$given_by{$_}}, $header for split ' ', $list;
}

my (%text, %includes);
sub look {
  my ($file) = @_;
  return if exists $text{$file};
  local $/;
  open my $in, '<', $file or die "$file: $!\n";
  my $code = <$in>;
  my @all;
  push @all, [$1, $2] while $code =~ /^\s*#\s*include\s*([<"])([^>"]+)[>"]/mg;
  $includes{$file} = \@all;
  $code =~ s{//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"}{}gs;
  $text{$file} = $code;
  for my $i (@all) { look($i->[1]) if $i->[0] eq '"' && -e $i->[1]; }
}

my %closure;
sub standard_of {  # the <...> of a file and of the tree's headers that it includes
  my ($file) = @_;
  return $closure{$file} if $closure{$file};
  my %has;
  $closure{$file} = \%has;
  for my $i (@{$includes{$file}}) {
    if ($i->[0] eq '<') { $has{$i->[1]} = 1; next; }
    next unless -e $i->[1];
    $has{$_} = 1 for keys %{standard_of($i->[1])};
  }
  return \%has;
}

my $bad = 0;
for my $file (@ARGV) {
  look($file);
  my $has = standard_of($file);
  my %told;
  for my $name ($text{$file} =~ /\bstd::(\w+)/g) {
    next if $told{$name}++;
    my $from = $given_by{$name};
    if (!$from) {
      print "$file: std::$name: say in $names which header it is of\n";
      $bad = 1;
    } elsif (!grep { $has->{$_} } @$from) {
      print "$file: uses std::$name and includes no <", join('> or <', @$from), ">\n";
      $bad = 1;
    }
  }
}
exit $bad;
