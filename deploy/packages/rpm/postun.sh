if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || :
    # An upgrade or a downgrade: this script is the former version's, and the files are those of the next one.
    if [ "$1" -ge 1 ]; then
        systemctl try-restart mcpmon.service || :
    fi
fi
if [ "$1" -eq 0 ] && aa-enabled --quiet 2>/dev/null; then
    echo 'profile mcpmon {}' | apparmor_parser --remove || :
fi
