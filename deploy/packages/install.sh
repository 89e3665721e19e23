#!/bin/sh
# Installs the files beside this script, or removes them.
set -eu
# Others read the configuration, whatever the umask of who installs.
umask 022
LC_ALL=C
export LC_ALL

usage() {
    cat <<'END'
usage: install.sh [--prefix DIR] [--no-service] [--start]
       install.sh --uninstall [--prefix DIR] [--purge]

  --prefix DIR   where programs and manual pages go; /usr/local by default;
                 a directory that a symbolic link leads to goes by its own name
  --no-service   install no unit of systemd and no group
  --start        start the service, now and at each boot
  --uninstall    stop the service, take what it keeps in the kernel away, remove the files
  --purge        with --uninstall: remove the configuration and what was recorded too
  --help         print this

DESTDIR names a directory that stands for the root of the file system; nothing is started or stopped then.
END
}

fail() {
    echo "install.sh: $1" >&2
    exit "${2:-3}"
}

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=${DESTDIR:-}
prefix=/usr/local
service=yes
start=no
uninstall=no
purge=no

while [ $# -gt 0 ]; do
    case $1 in
        --prefix)
            [ $# -gt 1 ] || fail "--prefix needs a directory" 2
            prefix=${2%/}
            shift
            ;;
        --no-service) service=no ;;
        --start) start=yes ;;
        --uninstall) uninstall=yes ;;
        --purge) purge=yes ;;
        --help)
            usage
            exit 0
            ;;
        *)
            usage >&2
            fail "there is no option $1" 2
            ;;
    esac
    shift
done

check_prefix() {
    case $prefix in
        /) fail "--prefix needs a directory below the root" 2 ;;
        /usr) fail "/usr belongs to the distribution's packages: use the .deb or the .rpm, or another prefix" 2 ;;
        # The unit names it, and systemd reads more characters than these as something else. What is there can be removed.
        *[!A-Za-z0-9/._+-]*)
            [ "$uninstall" = yes ] || fail "--prefix may have letters, digits and / . _ + - only: $prefix" 2
            ;;
        */ | *//* | */./* | */../* | */. | */..) fail "--prefix needs a path without empty parts, . and .. : $prefix" 2 ;;
        /*) ;;
        *) fail "--prefix needs an absolute path" 2 ;;
    esac
}

# The same directory by its own name, without symbolic links: AppArmor knows files by that. Below DESTDIR they lead to where they
# are not to.
own_name() {
    if [ -n "$root" ]; then
        printf '%s\n' "$1"
    else
        readlink -m -- "$1"
    fi
}

check_prefix
prefix=$(own_name "$prefix")
check_prefix
[ "$purge" = no ] || [ "$uninstall" = yes ] || fail "--purge goes with --uninstall" 2
[ "$start" = no ] || [ "$service" = yes ] || fail "--start does not go with --no-service" 2

unit=/etc/systemd/system/mcpmon.service
socket=/etc/systemd/system/mcpmon-proxy.socket
packaged=/usr/lib/systemd/system/mcpmon.service
profile=/etc/apparmor.d/mcpmon
list=$prefix/share/mcpmon/installed

# Whether this is the running system, and it has systemd.
live() {
    [ -z "$root" ] && [ -d /run/systemd/system ]
}

# Whether the kernel of this system confines by AppArmor.
has_apparmor() {
    live && command -v apparmor_parser >/dev/null && aa-enabled --quiet 2>/dev/null
}

# Whether a file is one of those that belong to the service, of which a system has one.
is_of_service() {
    [ "$1" = "$unit" ] || [ "$1" = "$socket" ] || [ "$1" = "$profile" ]
}

# Where a file of the archive goes; nothing for one that is not installed as it is.
place() {
    case $1 in
        usr/lib/systemd/* | usr/lib/sysusers.d/* | etc/*) ;;
        usr/*) echo "$prefix/${1#usr/}" ;;
        *) fail "the archive has an unexpected file: $1" ;;
    esac
}

# Puts a file in its place at once: whoever runs the old one keeps it.
put() {
    mkdir -p "$(dirname -- "$root$3")"
    cp -- "$1" "$root$3.new"
    chmod "$2" "$root$3.new"
    mv -f -- "$root$3.new" "$root$3"
}

# Removes a file, and the directories above it that nobody else has files in.
discard() {
    rm -f -- "$root$1"
    directory=$(dirname -- "$1")
    while [ "$directory" != "$prefix" ] && [ "$directory" != / ] && rmdir -- "$root$directory" 2>/dev/null; do
        directory=$(dirname -- "$directory")
    done
}

# The unit may name the program by a link that was its prefix's name.
program_of_unit() {
    sed -n 's,^ExecStart=\([^ ]*\) .*,\1,p' "$root$unit" | head -n 1
}

# Whether the service is there, and a package's, or runs the program of another prefix.
is_foreign() {
    [ -e "$root$packaged" ] || { [ -e "$root$unit" ] && [ "$(own_name "$(program_of_unit)")" != "$prefix/bin/mcpmon" ]; }
}

remove() {
    [ -r "$root$list" ] || fail "nothing was installed by this script below $prefix: there is no $root$list"
    foreign=no
    if is_foreign; then
        [ "$purge" = no ] || fail "the service runs the program of a package or of another prefix: nothing is purged, and nothing was removed"
        foreign=yes
        echo "the service runs the program of a package or of another prefix: it stays"
    fi
    if [ "$foreign" = no ] && live && [ -e "$unit" ]; then
        systemctl disable --now mcpmon.service
        [ ! -e "$socket" ] || systemctl disable --now mcpmon-proxy.socket
    fi
    # What refuses in the kernel outlives the service, and only mcpmon takes it away.
    if [ "$foreign" = no ] && [ -z "$root" ] && [ -d /sys/fs/bpf/mcpmon ]; then
        "$prefix/bin/mcpmon" detach
    fi
    while read -r file; do
        [ "$foreign" = no ] || ! is_of_service "$file" || continue
        if [ "$file" = "$profile" ] && has_apparmor; then
            echo 'profile mcpmon {}' | apparmor_parser --remove || true
        fi
        discard "$file"
    done <"$root$list"
    rm -f -- "$root$list" "$root$list.new"
    rmdir -- "$root$prefix/share/mcpmon" 2>/dev/null || true
    if live; then
        systemctl daemon-reload
    fi
    if [ "$purge" = yes ]; then
        rm -rf -- "$root/etc/mcpmon" "$root/var/lib/mcpmon" "$root/run/mcpmon"
        echo "mcpmon is removed, with its configuration and its records"
    else
        echo "mcpmon is removed; /etc/mcpmon and /var/lib/mcpmon stay (--purge removes them too)"
    fi
}

# Writes what this version installs to the new list.
name_files() {
    mkdir -p "$root$prefix/share/mcpmon"
    while read -r _ file; do
        to=$(place "$file")
        [ -z "$to" ] || echo "$to"
    done <"$here/SHA256SUMS" >"$root$list.new"
    # A service that an earlier version installed stays where this one is to install none.
    if [ "$service" = yes ] || grep -q -s -x -F "$unit" "$root$list"; then
        echo "$unit" >>"$root$list.new"
        echo "$socket" >>"$root$list.new"
        [ ! -d "$root${profile%/*}" ] || echo "$profile" >>"$root$list.new"
    fi
    # Named before they are there: the removal, and the next version, know of an installation that was interrupted.
    [ -e "$root$list" ] || : >"$root$list"
    sort -u -- "$root$list" "$root$list.new" >"$root$list.all"
    mv -f -- "$root$list.all" "$root$list"
}

# Removes what an earlier version installed and this one does not.
discard_former() {
    while read -r file; do
        # A list of before may have the prefix by a link's name.
        named=$(own_name "$(dirname -- "$file")")/$(basename -- "$file")
        grep -q -x -F -e "$file" -e "$named" -- "$root$list.new" || discard "$file"
    done <"$root$list"
    mv -f -- "$root$list.new" "$root$list"
}

install_files() {
    [ -r "$here/SHA256SUMS" ] || fail "there is no SHA256SUMS beside this script"
    # Before anything is written. It tells a damaged archive; who made the archive is told by the signature of the release.
    (cd "$here" && sha256sum --check --strict --quiet SHA256SUMS) || fail "a file differs from SHA256SUMS: nothing was installed"
    machine=$(uname -m)
    case $(basename -- "$here") in
        *-"$machine"-*) ;;
        *) [ -n "$root" ] || fail "this archive is not for $machine: $(basename -- "$here")" ;;
    esac

    if [ "$service" = yes ] && [ -e "$root$packaged" ]; then
        fail "a package of the distribution's kind is installed ($packaged): remove it first, or use --no-service"
    fi

    name_files
    while read -r _ file; do
        to=$(place "$file")
        [ -n "$to" ] || continue
        mode=0644
        [ "$file" != usr/bin/mcpmon ] || mode=0755
        put "$here/$file" "$mode" "$to"
    done <"$here/SHA256SUMS"

    if [ ! -e "$root/etc/mcpmon/mcpmon.yaml" ]; then
        put "$here/etc/mcpmon/mcpmon.yaml" 0644 /etc/mcpmon/mcpmon.yaml
    fi
    if [ "$service" = yes ]; then
        sed "s|^ExecStart=/usr/bin/|ExecStart=$prefix/bin/|" "$here/usr/lib/systemd/system/mcpmon.service" >"$root$list.unit"
        put "$root$list.unit" 0644 "$unit"
        put "$here/usr/lib/systemd/system/mcpmon-proxy.socket" 0644 "$socket"
        rm -f -- "$root$list.unit"
        if [ -d "$root${profile%/*}" ]; then
            sed "s|^@{mcpmon}=/usr/bin/|@{mcpmon}=$prefix/bin/|" "$here$profile" >"$root$list.profile"
            put "$root$list.profile" 0644 "$profile"
            rm -f -- "$root$list.profile"
        fi
    fi
    discard_former

    if [ "$service" = yes ] && live; then
        if ! getent group mcpmon >/dev/null; then
            groupadd --system mcpmon
        fi
        # Before the service is started, whose unit may name the profile.
        if has_apparmor; then
            apparmor_parser --replace --skip-read-cache --write-cache "$profile" || true
        fi
        systemctl daemon-reload
        if [ "$start" = yes ]; then
            systemctl enable mcpmon.service
            systemctl restart mcpmon.service
        else
            systemctl try-restart mcpmon.service
        fi
    fi
    echo "mcpmon is installed below $prefix"
    if [ "$service" = yes ] && [ "$start" = no ] && live && ! systemctl is-active --quiet mcpmon.service; then
        echo "start it with: systemctl enable --now mcpmon"
    fi
}

if [ -z "$root" ] && [ "$(id -u)" -ne 0 ]; then
    fail "this needs root; DESTDIR=DIR installs below a directory of yours"
fi
if [ "$uninstall" = yes ]; then
    remove
else
    install_files
fi
