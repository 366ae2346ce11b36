#!/bin/sh
# Runs FILE, and those beside it whose name goes on after an underscore, with pytest in the environment of Liger-Kernel's tests:
# pytest.sh BUILD FILE
set -eu
here=$(cd "$(dirname "$0")" && pwd)
sources=$(sh "$here/environment.sh" "$1") || {
    echo "skipped: PyTorch, transformers and Liger-Kernel cannot be installed here"
    exit 77
}
export PYTHONPATH="$1/python:$sources/src" PYTHONDONTWRITEBYTECODE=1 HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error
exec "$1/liger/venv/bin/python" -m pytest -q -p no:cacheprovider -W ignore "$2" "${2%.py}"_*.py
