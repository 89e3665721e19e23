#!/bin/busybox sh
# First process of a test machine: mounts what the tests need, runs them, says how they ended, powers off.
/bin/busybox mkdir -p /proc /sys /tmp /run /sbin /usr/bin /usr/sbin
/bin/busybox --install -s
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
# Some kernels look an executed descriptor up under this name.
ln -s /proc/self/fd /dev/fd
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /run
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t bpf bpf /sys/fs/bpf
mount -t tracefs tracefs /sys/kernel/tracing
mount -t debugfs debugfs /sys/kernel/debug
mount -t securityfs securityfs /sys/kernel/security
ip link set lo up

while read -r module; do
    if ! insmod "/modules/$module.ko"; then
        echo "the module $module does not load"
        echo "mcpmon-vm: exit 1"
        poweroff -f
    fi
done </modules/order

set --
while read -r argument; do
    set -- "$@" "$argument"
done </tests/arguments

echo "mcpmon-vm: kernel $(uname -r)"
echo "mcpmon-vm: lsm $(cat /sys/kernel/security/lsm)"
CI=true /tests/kernel "$@" </dev/null 2>&1
echo "mcpmon-vm: exit $?"
sync
poweroff -f
