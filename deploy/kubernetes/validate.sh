#!/bin/sh
# Checks the manifests against the schemas of several Kubernetes versions, without a cluster.
# Needs python3 with venv; the schemas come with the package, which is fetched once into target/.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
venv="$here/../../target/kubernetes-validate"
package='kubernetes-validate==1.37.0'

if [ "$(cat "$venv/package" 2>/dev/null || true)" != "$package" ]; then
    rm -rf "$venv"
    mkdir -p "$(dirname -- "$venv")"
    if ! python3 -m venv "$venv"; then
        echo "validate.sh: python3 with venv is needed (Debian: apt-get install python3-venv)" >&2
        exit 3
    fi
    "$venv/bin/pip" install --quiet --disable-pip-version-check "$package"
    printf '%s\n' "$package" >"$venv/package"
fi

# appArmorProfile is a field since 1.30.
for version in 1.30 1.33 1.37; do
    "$venv/bin/kubernetes-validate" --strict --kubernetes-version "$version" "$here"/*.yaml "$here"/remove/*.yaml
done
