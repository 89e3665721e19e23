#!/bin/sh
# Prepares a Debian machine for the kernel tests; safe to run again.
#
#   provision.sh test    what building and running the kernel tests needs beside Rust (default)
#   provision.sh lab     what `cargo xtask vm` needs: an emulator and the keys of Debian's archive
#   provision.sh lab-arm64    the same for its kernels of arm64
set -eu

purpose=${1:-test}
case $purpose in
test) packages="build-essential" ;;
lab) packages="qemu-system-x86 debian-archive-keyring" ;;
lab-arm64) packages="qemu-system-arm debian-archive-keyring" ;;
*)
    echo "provision.sh: '$purpose' is no purpose; use 'test', 'lab' or 'lab-arm64'" >&2
    exit 2
    ;;
esac

if [ "$(id -u)" -ne 0 ]; then
    echo "provision.sh: needs root; run: sudo sh $0 $purpose" >&2
    exit 3
fi
if ! command -v apt-get >/dev/null; then
    echo "provision.sh: only Debian and its relatives are prepared; install by hand: $packages" >&2
    exit 3
fi

missing=
for package in $packages; do
    state=$(dpkg-query --show --showformat '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$state" = installed ] || missing="$missing $package"
done
if [ -n "$missing" ]; then
    echo "provision.sh: installing$missing"
    export DEBIAN_FRONTEND=noninteractive
    apt-get -o DPkg::Lock::Timeout=300 --quiet=2 update
    # shellcheck disable=SC2086 # a list of words
    apt-get -o DPkg::Lock::Timeout=300 --quiet=2 install --yes --no-install-recommends $missing
fi
[ "$purpose" = test ] || exit 0

# What the tests expect of a kernel and its mounts.
mounted() {
    grep -qs "^[^ ]* $2 $1 " /proc/mounts
}
mounted bpf /sys/fs/bpf || mount -t bpf bpf /sys/fs/bpf
if ! grep -qs ' cgroup2 ' /proc/mounts; then
    mkdir -p /sys/fs/cgroup/unified
    mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified
fi
if [ ! -r /sys/kernel/btf/vmlinux ]; then
    echo "provision.sh: this kernel carries no type information (CONFIG_DEBUG_INFO_BTF): the tests cannot run on it" >&2
    exit 1
fi
