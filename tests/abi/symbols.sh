#!/bin/sh
# The symbols that libtigon.so exports are those of symbols.txt, no more and no fewer.
#   tests/abi/symbols.sh build/libtigon.so            compare
#   tests/abi/symbols.sh build/libtigon.so --update   write the list anew
set -eu
list=$(dirname "$0")/symbols.txt
exported() {
    nm -D --defined-only "$1" | awk '{ print $3 }' | LC_ALL=C sort
}
if [ "${2:-}" = --update ]; then
    exported "$1" >"$list"
    exit 0
fi
if ! exported "$1" | diff -u "$list" -; then
    echo "libtigon.so exports other symbols than tests/abi/symbols.txt; if that is meant: tests/abi/symbols.sh $1 --update"
    exit 1
fi
echo "$(wc -l <"$list") symbols"
