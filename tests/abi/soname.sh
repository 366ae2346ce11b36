#!/bin/sh
# Programs that were linked with another version in which ids of operators may differ do not start with this one: while the major
# version is 0, the name that they ask for carries the minor one, too.
#   soname.sh LIBRARY VERSION
set -eu
case $2 in
0.*) expected=libtigon.so.${2%.*} ;;
*) expected=libtigon.so.${2%%.*} ;;
esac
found=$(readelf -d "$1" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
echo "$found"
[ "$found" = "$expected" ] || { echo "expected $expected"; exit 1; }
