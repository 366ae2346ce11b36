#!/bin/sh
# Runs FILE, and those beside it whose name goes on after an underscore, with pytest in the environment of Liger-Kernel's tests:
# pytest.sh BUILD FILE
# TRL_BEFORE=1 in the environment: with the older TRL.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
sources=$(sh "$here/environment.sh" "$1") || {
    echo "skipped: PyTorch, transformers and Liger-Kernel cannot be installed here"
    exit 77
}
export PYTHONPATH="${TRL_BEFORE:+$1/liger/trl_before:}$1/python:$sources/src" PYTHONDONTWRITEBYTECODE=1 HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error
python=$1/liger/venv/bin/python
set -- "$2" "${2%.py}"_*.py
[ -e "$2" ] || set -- "$1" # nothing has such a name
exec "$python" -m pytest -q -p no:cacheprovider -W ignore "$@"
