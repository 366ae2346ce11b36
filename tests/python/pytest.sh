#!/bin/sh
# Runs a file of tests with pytest, or another script as it is, in a Python that has PyTorch.
#   pytest.sh SOURCE_DIR FILE [ARGUMENT...]
set -eu
source=$1
file=$2
shift 2
python=$(sh "$source/scripts/torch_python.sh" pytest mypy) || python=$(sh "$source/scripts/torch_python.sh" pytest) || {
    echo "skipped: there is no PyTorch here, and it cannot be installed"
    exit 77
}
case $file in
*/test_*.py) exec "$python" -m pytest -q -p no:cacheprovider "$file" "$@" ;;
*) exec "$python" "$file" "$@" ;;
esac
