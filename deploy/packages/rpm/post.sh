systemd-sysusers mcpmon.conf || :
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || :
fi
# Whether a service runs from its installation on is the distribution's choice.
if [ "$1" -eq 1 ] && command -v systemctl >/dev/null; then
    systemctl --no-reload preset mcpmon.service || :
fi
