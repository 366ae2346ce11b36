#!/bin/sh
# The symbols that libtigon.so exports are one for each operator of ops.def and those of symbols.txt, no more and no fewer.
#   tests/abi/symbols.sh build/libtigon.so            compare
#   tests/abi/symbols.sh build/libtigon.so --update   write the list anew
set -eu
here=$(dirname "$0")
list=$here/symbols.txt
operators() {
    sed -n 's/^TG_OP(\([a-z0-9_]*\),.*/tg_\1/p' "$here/../../include/tigon/ops.def" | LC_ALL=C sort
}
exported() {
    nm -D --defined-only "$1" | awk '{ print $3 }' | LC_ALL=C sort
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
operators >"$work/operators"
exported "$1" >"$work/exported"
if [ "${2:-}" = --update ]; then
    LC_ALL=C comm -13 "$work/operators" "$work/exported" >"$list"
    exit 0
fi
LC_ALL=C sort "$work/operators" "$list" >"$work/expected"
if ! diff -u "$work/expected" "$work/exported"; then
    echo "libtigon.so exports other symbols than tests/abi/symbols.txt; if that is meant: tests/abi/symbols.sh $1 --update"
    exit 1
fi
echo "$(wc -l <"$work/exported") symbols"
