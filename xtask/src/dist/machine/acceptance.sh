#!/bin/bash
# Installs, upgrades, downgrades and removes mcpmon as a user does, in each form of package, while a loop connects to an address
# that the policy refuses. /packages/old and /packages/new have two versions.
set -u

readonly ADDRESS=198.18.0.1 PORT=7000
# The forms of packages that are tried, and the security module that confines the service.
read -r MODULE FORMS </packages/plan
passed=0
failed=0

check() {
    local title=$1
    shift
    if "$@" >/tmp/check.log 2>&1; then
        passed=$((passed + 1))
        echo "ok      $title"
        grep ' connected, [0-9]* refused' /tmp/check.log
    else
        failed=$((failed + 1))
        echo "FAILED  $title: $*"
        sed 's/^/        /' /tmp/check.log | tail -n 15
    fi
}

# Until the command succeeds, for a time that is far longer than it takes.
await() {
    local deadline=$((SECONDS + 120))
    until "$@"; do
        if [ "$SECONDS" -ge "$deadline" ]; then
            systemctl status --no-pager --full mcpmon 2>&1 | tail -n 15
            return 1
        fi
        sleep 0.2
    done
}

not() { ! "$@"; }
is() { [ "$1" = "$2" ] || { echo "is \`$1\`, not \`$2\`"; return 1; }; }
connects() { perl -MIO::Socket::INET -e 'exit(IO::Socket::INET->new(PeerAddr=>$ARGV[0],PeerPort=>$ARGV[1])?0:1)' $ADDRESS $PORT; }
mode() { stat --format '%a %U %G' "$1"; }
keeps_from_others() { test -n "$(ls "$1")" && is "$(find "$1" -mindepth 1 -perm /007)" ""; }
# Debian masks the unit of a package until the package is purged.
is_gone() {
    case $(systemctl show --property LoadState --value mcpmon) in
        not-found | masked) ;;
        *) systemctl cat mcpmon; return 1 ;;
    esac
}
main_pid() { systemctl show --property MainPID --value mcpmon; }
is_replaced() { [ "$(main_pid)" -gt 0 ] && not is "$(main_pid)" "$1"; }
file_number() { stat --format %i "$1"; }
# As a user who is nobody else, with a group.
asks_with_group() { setpriv --reuid 65534 --regid "$1" --clear-groups "$2" status; }
may_not_ask() { asks_with_group 65534 "$1" 2>&1 | grep 'no permission for /run/mcpmon/mcpmon.sock'; }

confinement() { tr -d '\0' <"/proc/$1/attr/current"; }
# The kernel's log after a mark, the time of what was its last line then. One that no longer reaches back to it, or that cannot be
# read, is an error.
mark=0
mark_log() { mark=$(dmesg | tail -n 1 | sed 's/^\[ *\([0-9.]*\)\].*/\1/'); }
log_since_mark() {
    dmesg | awk -v mark="$mark" '
        { time = substr($0, 2) + 0 }
        NR == 1 && time > mark + 0 { print "the log begins after " mark " s, where it was marked"; exit }
        time > mark + 0
        END { if (NR == 0) print "the log is empty"; exit NR < 2 }'
}
denials_by_apparmor() { grep 'apparmor="DENIED".* profile="mcpmon[/"]'; }
# By domains, for threads have names of their own: that of the service, in which this test runs as well, and that of users, in
# which only wrappers and their servers run here. So is what others are denied of the service.
denials_by_selinux() {
    grep -E 'avc: +denied .* (scontext=[a-z_]+:[a-z_]+:(initrc|unconfined)_t:|tcontext=[a-z_]+:[a-z_]+:initrc_t:)'
}
nothing_is_denied() {
    local log
    log=$(log_since_mark) || { echo "$log"; return 1; }
    not "denials_by_$MODULE" <<<"$log"
}
# The kernel writes denials to its log a moment later.
is_logged() { log_since_mark | "$@"; }
# Code on the heap, which Debian's policy lets neither domain run: the domain $1, to which the words after it lead.
tells_what_it_denies() {
    local domain=$1
    shift
    # shellcheck disable=SC2016
    not "$@" perl -e '
        my $text = "x" x 100;
        exit(syscall(10, unpack("J", pack("p", $text)) & ~4095, 4096, 7) ? 1 : 0)' &&
        await is_logged grep -E "avc: +denied +\{ exec(heap|mem) \} .* comm=\"perl\" scontext=[a-z_]+:[a-z_]+:$domain:"
    local outcome=$?
    mark_log
    return $outcome
}
confined() { aa-exec --profile mcpmon -- "$@"; }
has_profile() { grep -q '^mcpmon ' /sys/kernel/security/apparmor/profiles; }

# A wrapper, started as the words before it say, and its server are in the context of who starts them.
wraps() {
    local form=$1 program=$2 context=$3 wrapper
    shift 3
    cp /bin/sleep /tmp/server
    "$@" "$program" wrap -- /tmp/server 300 < <(sleep 300) >/tmp/wrapper.log 2>&1 &
    wrapper=$!
    check "$form: confined: a wrapper starts a server" await pidof server
    check "$form: confined: the wrapper is its user's" is "$(confinement "$wrapper")" "$context"
    check "$form: confined: and so is the server" is "$(confinement "$(pidof server)")" "$context"
    kill "$wrapper"
    wait "$wrapper" 2>/dev/null
}

drop_in() {
    mkdir -p /etc/systemd/system/mcpmon.service.d
    printf '[Service]\nAppArmorProfile=-mcpmon\n' >/etc/systemd/system/mcpmon.service.d/apparmor.conf
    systemctl daemon-reload
}

# The service has a profile, and what users run has none.
confined_by_apparmor() {
    local form=$1 program=$2 places="/root/pages /run/mcpmon/pages"
    drop_in
    check "$form: confined: the service starts" systemctl restart mcpmon
    check "$form: confined: the service is" is "$(confinement "$(main_pid)")" "mcpmon (enforce)"
    check "$form: confined: and reloads its configuration" systemctl reload mcpmon
    wraps "$form" "$program" unconfined env

    # Whatever is on the way of the program that writes is not the profile.
    # shellcheck disable=SC2086
    mkdir $places
    check "$form: confined: nothing was denied" nothing_is_denied
    check "$form: confined: it writes where it is to" confined "$program" man --directory /run/mcpmon/pages
    check "$form: confined: what writes elsewhere by itself" "$program" man --directory /root/pages
    rm /root/pages/*
    check "$form: confined: fails there under the profile" not confined "$program" man --directory /root/pages
    check "$form: confined: and writes nothing" is "$(ls /root/pages)" ""
    check "$form: confined: and it runs no shell" not confined /bin/sh -c true
    check "$form: confined: which the kernel's log tells" await is_logged denials_by_apparmor
    # shellcheck disable=SC2086
    rm -r $places
    mark_log
}

have_their_types() {
    local told
    told=$(restorecon -n -R -v "$@" 2>&1) && is "$told" ""
}

# The service runs in Debian's domain of any service without a module of its own, and a wrapper in its user's.
confined_by_selinux() {
    local form=$1 program=$2 user=unconfined_u:unconfined_r:unconfined_t:s0
    check "$form: confined: the policy is enforced" is "$(getenforce)" Enforcing
    check "$form: confined: the service's domain" is "$(confinement "$(main_pid)")" system_u:system_r:initrc_t:s0
    check "$form: confined: it reloads its configuration" systemctl reload mcpmon
    check "$form: confined: its files have their types" have_their_types "$program" /var/lib/mcpmon
    wraps "$form" "$program" $user runcon $user
    check "$form: confined: nothing was denied" nothing_is_denied
    check "$form: confined: what the service's domain may not is told" tells_what_it_denies initrc_t env
    check "$form: confined: and what its user's may not" tells_what_it_denies unconfined_t runcon $user
}

listen() {
    perl -MIO::Socket::INET -e '
        my $server = IO::Socket::INET->new(LocalAddr => $ARGV[0], LocalPort => $ARGV[1], Listen => 64) or die "listen: $!";
        while (1) { my $one = $server->accept; close $one if $one }' $ADDRESS $PORT &
    await connects
}

# Connects without a pause; the numbers of connections made, refused and failed otherwise go to /tmp/loop.
start_loop() {
    rm -f /tmp/loop
    perl -MIO::Socket::INET -MErrno=EPERM -e '
        my ($made, $refused, $other, $end) = (0, 0, 0, 0);
        $SIG{TERM} = sub { $end = 1 };
        until ($end) {
            if (IO::Socket::INET->new(PeerAddr => $ARGV[0], PeerPort => $ARGV[1])) { $made++ }
            elsif ($!{EPERM}) { $refused++ }
            else { $other++ }
            if (($made + $refused + $other) % 64 == 0 || $end) {
                open my $file, ">", "/tmp/loop.new"; print $file "$made $refused $other\n"; close $file;
                rename "/tmp/loop.new", "/tmp/loop";
            }
        }' $ADDRESS $PORT &
    loop=$!
    await test -s /tmp/loop
}

loop_is_beyond() { [ "$(cut -d' ' -f2 /tmp/loop)" -gt "$1" ]; }

# Lets it go on for a while after what was done, and then compares.
end_loop() {
    local made refused other before
    refused=$(cut -d' ' -f2 /tmp/loop)
    await loop_is_beyond $((refused + 256)) || echo "the loop stands still"
    kill "$loop"
    wait "$loop"
    before=$refused
    read -r made refused other </tmp/loop
    echo "        $made connected, $refused refused, $other failed otherwise"
    is "$made $other" "0 0" && [ "$refused" -gt $((before + 256)) ]
}

# How each form of package is handled; $1 is the directory of a version.
deb_install() { dpkg --install --force-confold "/packages/$1/"*.deb; }
deb_remove() { dpkg --remove mcpmon; }
deb_purge() { dpkg --purge mcpmon; }
deb_version() { dpkg-query --show --showformat '${Version}' mcpmon; }
rpm_install() { rpm --upgrade --oldpackage --nodeps --force-debian "/packages/$1/"*.rpm && systemctl enable --now mcpmon; }
rpm_remove() { rpm --erase mcpmon; }
rpm_purge() { rm -rf /var/lib/mcpmon /etc/mcpmon; }
rpm_version() { rpm --query --queryformat '%{VERSION}-%{RELEASE}' mcpmon; }
tar_install() {
    rm -rf /tmp/unpacked && mkdir /tmp/unpacked && tar -xf "/packages/$1/"*.tar.gz -C /tmp/unpacked &&
        sh /tmp/unpacked/*/install.sh --start
}
tar_remove() { sh /tmp/unpacked/*/install.sh --uninstall; }
tar_purge() { rm -rf /var/lib/mcpmon /etc/mcpmon; }
# That of the archive whose program, bill of materials and pages are the ones installed: neither has it in its files.
tar_version() {
    local archive part
    archive=$(echo /tmp/unpacked/*)
    for part in bin/mcpmon share/doc/mcpmon share/man; do
        diff --recursive "$archive/usr/$part" "/usr/local/$part" >/tmp/differs || return
    done
    archive=${archive##*/mcpmon-}
    echo "${archive%%-*}"
}

versions() {
    case $1 in
        tar) echo "$(cat /packages/old/version) $(cat /packages/new/version)" ;;
        *) echo "$(cat /packages/old/version)-1 $(cat /packages/new/version)-1" ;;
    esac
}

ended_by_watchdog() { journalctl --no-pager --unit mcpmon --since "@$1" | grep 'Watchdog timeout'; }

# The daemon's silence is told by what it left in the kernel, in whole seconds.
status_tells_silence() {
    "$1" status --json >/tmp/status
    is "$?" 3 && grep -E '"silent_seconds": ?[1-9]' /tmp/status
}

# A time without a daemon that was not stopped, of most of the watchdog's.
records_gap() {
    "$1" events --type mcp_daemon_gap --json >/tmp/gaps && perl -0777 -ne '
        while (/"duration_ms": ?(\d+),\s*"stopped": ?false/g) { $found = 1 if $1 >= 25000 }
        END { exit !$found }' /tmp/gaps
}

# A daemon that stands still is ended and started again by systemd.
hang() {
    local form=$1 program=$2 before since
    before=$(main_pid)
    since=$(date +%s)
    start_loop
    kill -STOP "$before"
    check "$form: hung: status tells for how long" status_tells_silence "$program"
    check "$form: hung: nobody has replaced it yet" is "$(main_pid)" "$before"
    check "$form: hung: it is replaced" await is_replaced "$before"
    echo "        after $(($(date +%s) - since)) s"
    check "$form: hung: by the watchdog" ended_by_watchdog "$since"
    check "$form: hung: the service becomes active" await systemctl is-active --quiet mcpmon
    check "$form: hung: no refused connection was made meanwhile" end_loop
    check "$form: hung: the time without a daemon is recorded" await records_gap "$program"
    check "$form: hung: status" await "$program" status
}

upgrade() {
    local form=$1 program=$2 to=$3 version=$4 title=$5 before file
    before=$(main_pid)
    file=$(file_number "$program")
    start_loop
    check "$form: $title" "${form}_install" "$to"
    check "$form: $title: its version" is "$("${form}_version")" "$version"
    check "$form: $title: the service is active" await systemctl is-active --quiet mcpmon
    check "$form: $title: the program is another file" not is "$(file_number "$program")" "$file"
    check "$form: $title: the service is another process" is_replaced "$before"
    check "$form: $title: no refused connection was made meanwhile" end_loop
    check "$form: $title: what was configured is as it was" grep -q '^# changed$' /etc/mcpmon/mcpmon.yaml
}

lifecycle() {
    local form=$1 old new program=/usr/bin/mcpmon
    read -r old new <<<"$(versions "$form")"
    [ "$form" != tar ] || program=/usr/local/bin/mcpmon
    check "$form: before, the address is reached" connects
    check "$form: install" "${form}_install" old
    check "$form: install: its version" is "$("${form}_version")" "$old"
    check "$form: the service becomes active" await systemctl is-active --quiet mcpmon
    check "$form: it starts at boot" systemctl is-enabled --quiet mcpmon
    check "$form: the service has a watchdog" is "$(systemctl show --property WatchdogUSec --value mcpmon)" 30s
    # A machine that is slow is degraded for some seconds after its start, and says so.
    check "$form: status" await "$program" status
    check "$form: the program's mode" is "$(mode $program)" "755 root root"
    check "$form: the configuration's mode" is "$(mode /etc/mcpmon/mcpmon.yaml)" "644 root root"
    check "$form: the socket's mode" is "$(mode /run/mcpmon/mcpmon.sock)" "660 root mcpmon"
    check "$form: the socket's directory" is "$(mode /run/mcpmon)" "750 root mcpmon"
    check "$form: the store's directory" is "$(mode /var/lib/mcpmon)" "750 root mcpmon"
    check "$form: others read nothing in the store's directory" keeps_from_others /var/lib/mcpmon
    check "$form: its group asks it" await asks_with_group "$(getent group mcpmon | cut -d: -f3)" "$program"
    check "$form: nobody else asks it" may_not_ask "$program"

    echo '# changed' >>/etc/mcpmon/mcpmon.yaml
    mkdir -p /etc/mcpmon/conf.d
    printf 'network:\n  deny:\n    - name: acceptance\n      cidrs: ["%s"]\n' $ADDRESS >/etc/mcpmon/conf.d/10-deny.yaml
    check "$form: a rule takes effect" await not connects
    "confined_by_$MODULE" "$form" "$program"
    [ "$form" != deb ] || hang "$form" "$program"
    upgrade "$form" "$program" new "$new" upgrade
    upgrade "$form" "$program" old "$old" downgrade
    start_loop
    check "$form: the daemon is stopped" systemctl stop mcpmon
    check "$form: and its rule goes on refusing" end_loop
    check "$form: and is started again" systemctl start mcpmon
    check "$form: confined: nothing was denied since" nothing_is_denied
    check "$form: what the kernel keeps is where it is to be" test -e /sys/fs/bpf/mcpmon
    check "$form: remove" "${form}_remove"
    check "$form: removed: the address is reached" connects
    check "$form: removed: nothing is kept in the kernel" not test -e /sys/fs/bpf/mcpmon
    check "$form: removed: no program" not test -e "$program"
    check "$form: removed: no service" is_gone
    check "$form: removed: the configuration stays" test -e /etc/mcpmon/conf.d/10-deny.yaml
    check "$form: removed: the records stay" test -e /var/lib/mcpmon
    check "$form: purge" "${form}_purge"
    check "$form: purged: no records" not test -e /var/lib/mcpmon
    if [ "$MODULE" = apparmor ]; then
        rm -r /etc/systemd/system/mcpmon.service.d
        check "$form: purged: no profile" not has_profile
    fi
    rm -rf /etc/mcpmon
    systemctl reset-failed mcpmon 2>/dev/null
}

# A prefix that a symbolic link leads to: the profile holds for the file behind it, and what another link leads to is the same.
linked() {
    local script profile=/etc/apparmor.d/mcpmon unit=/etc/systemd/system/mcpmon.service
    mark_log
    rm -rf /tmp/unpacked && mkdir /tmp/unpacked /srv/mcpmon && tar -xf /packages/new/*.tar.gz -C /tmp/unpacked
    ln -s /srv/mcpmon /opt/mcpmon
    script=$(echo /tmp/unpacked/*/install.sh)
    check "link: install" sh "$script" --prefix /opt/mcpmon --start
    check "link: the unit names the file" grep -x 'ExecStart=/srv/mcpmon/bin/mcpmon daemon' "$unit"
    check "link: the profile names the file" grep -x '@{mcpmon}=/srv/mcpmon/bin/mcpmon' "$profile"
    drop_in
    check "link: the service starts" systemctl restart mcpmon
    check "link: the service is confined" is "$(confinement "$(main_pid)")" "mcpmon (enforce)"
    check "link: status" await /opt/mcpmon/bin/mcpmon status
    check "link: nothing was denied" nothing_is_denied
    ln -s /srv/mcpmon /opt/later
    check "link: another link: install" sh "$script" --prefix /opt/later --start
    check "link: another link: the program" test -x /srv/mcpmon/bin/mcpmon
    check "link: remove" sh "$script" --uninstall --prefix /opt/mcpmon --purge
    check "link: removed: no file" is "$(find /srv/mcpmon ! -type d)" ""
    check "link: removed: no service" is_gone
    check "link: removed: no profile" not has_profile
    rm -r /etc/systemd/system/mcpmon.service.d
}

echo "mcpmon-vm: kernel $(uname -r)"
ip link set lo up
ip address add $ADDRESS/32 dev lo
listen
mark_log
for form in $FORMS; do
    lifecycle "$form"
done
[ "$MODULE" != apparmor ] || linked
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
echo "mcpmon-vm: exit $?"
sync
systemctl poweroff --force --force
