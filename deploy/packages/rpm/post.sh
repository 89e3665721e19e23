systemd-sysusers mcpmon.conf || :
# Before the service is started, whose unit may name the profile.
if aa-enabled --quiet 2>/dev/null; then
    apparmor_parser --replace --skip-read-cache --write-cache /etc/apparmor.d/mcpmon || :
fi
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || :
fi
# Whether a service runs from its installation on is the distribution's choice.
if [ "$1" -eq 1 ] && command -v systemctl >/dev/null; then
    systemctl --no-reload preset mcpmon.service || :
fi
