#!/bin/sh
# The kernel that `make hub-kernel` writes, of this build's extension, with Hugging Face's `kernels` in a folder of its own: where that can be
# imported, transformers makes its own functions layers.
#   hub.sh BUILD [FILE]      FILE: test_hub.py
set -eu
here=$(cd "$(dirname "$0")" && pwd)
sh "$here/environment.sh" "$1" >/dev/null || {
    echo "skipped: PyTorch and transformers cannot be installed here"
    exit 77
}
python=$1/liger/venv/bin/python
kernels=$1/liger/kernels
# transformers 5.14 takes kernels 0.15.2 and newer, before 0.16.
if [ ! -e "$kernels/kernels/__init__.py" ]; then
    "$python" -m pip install -q --disable-pip-version-check --no-deps --target "$kernels" kernels==0.15.2 kernels-data tomlkit || {
        echo "skipped: Hugging Face's kernels cannot be installed here"
        exit 77
    }
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -B "$here/../../bindings/python/hub/write.py" "$1/python/tigon/_core.abi3.so" "$work/tigon"
export TIGON_HUB_KERNEL="$work/tigon" PYTHONPATH="$1/python:$kernels" PYTHONDONTWRITEBYTECODE=1 HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error
"$python" -m pytest -q -p no:cacheprovider -W ignore "$here/${2:-test_hub.py}"
