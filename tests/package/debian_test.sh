#!/bin/sh
# debian_test.sh DEB SUITE MIRROR: installs a package in a bare system of its own and runs the demo's
# commands there, as root. Exit 0 passed, 1 failed, 77 where such a system cannot be made.
set -eu
deb=$1 suite=$2 mirror=$3
here=$(cd "$(dirname "$0")/../.." && pwd)
skip() { echo "package-test: skipped: $suite: $*"; exit 77; }
[ "$(id -u)" -eq 0 ] || skip "a bare system is made by root"
command -v debootstrap > /dev/null || skip "debootstrap is not installed"
unshare --mount true 2> /dev/null || skip "this machine lets nobody mount"
[ -e "/usr/share/debootstrap/scripts/$suite" ] || skip "debootstrap does not know it"

work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
trap 'exit 130' INT TERM
root=$work/root
debootstrap --variant=minbase "$suite" "$root" "$mirror" > "$work/log" 2>&1 || {
  tail -n 3 "$work/log"
  skip "debootstrap cannot make it from $mirror"
}
cp "$deb" "$root/root/ringfence.deb"
cp "$here/dev" "$root/root/dev"
cp /etc/resolv.conf "$root/etc/resolv.conf"
# How this machine reaches a mirror: proxies and what it holds of dates.
cp /etc/apt/apt.conf.d/* "$root/etc/apt/apt.conf.d/" 2> /dev/null || true
# Mounts of its own, which go with it however it ends.
unshare --mount sh -eu -c '
  mount -t proc proc "$1/proc"
  mount -t tmpfs tmpfs "$1/dev/shm"
  exec chroot "$1" sh -eu -c "
    apt-get update -q > /dev/null
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends /root/ringfence.deb
    ringfence --version
    sh /root/dev demo /usr/bin/ringfence
    for file in /usr/share/doc/ringfence/copyright /usr/share/ringfence/profiles/h200.toml; do
      [ -s \$file ] || { echo missing: \$file; exit 1; }
    done
    apt-get purge -y -q ringfence
    [ ! -e /usr/bin/ringfence ] || { echo left behind; exit 1; }"
' sh "$root"
echo "package-test: $suite: passed"
