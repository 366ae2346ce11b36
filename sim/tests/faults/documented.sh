#!/bin/sh
# Every kind of fault stands in the page's table, with the same words.
#   documented.sh FAULTS.inc PAGE.md
set -eu
[ -e "$2" ] || exit 77
sed -n 's/^SIM_FAULT("\(.*\)", "\(.*\)")$/| `\1` | \2 |/p' "$1" | {
    missing=0
    while read -r row; do
        grep -qF "$row" "$2" || { echo "missing in $2: $row"; missing=1; }
    done
    exit $missing
}
