# At the removal, not at an upgrade, which the kernel is to refuse through.
if [ "$1" -eq 0 ]; then
    if [ -d /run/systemd/system ]; then
        systemctl --no-reload disable --now mcpmon.service || :
    fi
    if [ -d /sys/fs/bpf/mcpmon ]; then
        /usr/bin/mcpmon detach
    fi
fi
