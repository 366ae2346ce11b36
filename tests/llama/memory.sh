#!/bin/sh
# Peak memory of the preset 124m, batch 4 x 256, in f32: at most 2.5 GiB.
. "$(dirname "$0")/common.sh"
free=$(awk '/MemAvailable/ { print int($2 / 1024) }' /proc/meminfo)
[ "$free" -gt 3500 ] || {
    echo "skipped: $free MiB of memory are free, 3500 are needed"
    exit 77
}
"$llama" --preset 124m --data corpus.txt --val held.txt --eval-windows 4 --steps 2 --quiet --log log
peak=$(tail -n 1 log | sed -n 's/.*"peak_bytes":\([0-9]*\).*/\1/p')
echo "peak memory of 124m: $((peak / 1048576)) MiB"
[ "$peak" -le $((2560 * 1048576)) ] || fail "more than 2560 MiB"
