#!/bin/sh
# Starts a system under SELinux whose files have no labels yet. The file system that the kernel unpacks into has one label for
# all: the files move to another one first. Who labels them there may not under the policy; systemd enforces it from its start
# on, as the kernel's parameter says.
set -e
if [ "$1" != moved ]; then
    mkdir /moved
    mount -t tmpfs -o mode=755,size=75% tmpfs /moved
    tar -C / --one-file-system --exclude ./moved -cf - . | tar -C /moved -xpf -
    exec switch_root /moved /packages/selinux.sh moved
fi
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
load_policy -i
setenforce 0
setfiles -F /etc/selinux/default/contexts/files/file_contexts /
exec /usr/lib/systemd/systemd
