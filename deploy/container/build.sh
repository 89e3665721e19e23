#!/bin/sh
# Builds the static binary and the image around it, with buildah or podman and without a daemon:
# target/container/mcpmon.tar, an OCI archive for `podman load` or `ctr images import`.
#
# MCPMON_STATIC_BINARY takes a binary that is built already, CA_BUNDLE another set of authorities, and
# IMAGE another name.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
out="$root/target/container"
bundle=${CA_BUNDLE:-/etc/ssl/certs/ca-certificates.crt}

fail() {
    echo "build.sh: $1" >&2
    exit 3
}

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$root/Cargo.toml" | head -n 1)
revision=$(git -C "$root" rev-parse HEAD 2>/dev/null || echo unknown)
image=${IMAGE:-localhost/mcpmon:$version}

if command -v buildah >/dev/null; then
    tool=buildah
elif command -v podman >/dev/null; then
    tool=podman
else
    fail "buildah or podman is needed (Debian: apt-get install buildah)"
fi
[ -r "$bundle" ] || fail "no certificate authorities at $bundle (Debian: apt-get install ca-certificates)"

binary=${MCPMON_STATIC_BINARY:-}
if [ -z "$binary" ]; then
    if [ -z "${MCPMON_BPF_OBJECT:-}" ] && [ ! -e "$root/target/bpf/mcpmon-ebpf" ]; then
        (cd "$root" && cargo xtask build-ebpf)
    fi
    target=$(rustc -vV | sed -n 's/^host: //p')
    # With a target named, the flags do not reach build scripts and procedural macros.
    (cd "$root" && RUSTFLAGS='-C target-feature=+crt-static' \
        cargo build --release --package mcpmon --target "$target" --target-dir "$root/target")
    binary="$root/target/$target/release/mcpmon"
fi
# A program interpreter would be missing in an image that has nothing but the binary.
if LC_ALL=C readelf --program-headers "$binary" | grep -q INTERP; then
    fail "$binary is linked dynamically"
fi

context="$out/context"
rm -rf "$context" "$out/mcpmon.tar"
mkdir -p "$context"
cp "$binary" "$context/mcpmon"
chmod 0755 "$context/mcpmon"
cp -L "$bundle" "$context/ca-certificates.crt"

# A storage of its own: no overlay file system needed, and nobody's images touched.
storage() {
    "$tool" --root "$out/storage" --runroot "$out/run" --storage-driver vfs "$@"
}
storage build --isolation chroot --tag "$image" \
    --build-arg "VERSION=$version" --build-arg "REVISION=$revision" \
    --file "$root/deploy/container/Containerfile" "$context"
storage push "$image" "oci-archive:$out/mcpmon.tar:$image"
storage rmi "$image" >/dev/null
echo "$image: $out/mcpmon.tar, $(wc -c <"$out/mcpmon.tar") bytes"
