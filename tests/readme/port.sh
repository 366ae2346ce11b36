#!/bin/sh
# Does what docs/port-a-kernel.md says, in a folder of its own: C blocks become the files that their first line names, shell blocks
# are run, and what a text block shows must be printed by the shell block before it, numbers apart.
#   port.sh SOURCE_DIR BUILD_DIR [--show]     --show: print what every block prints
set -eu
document=$1/docs/port-a-kernel.md
TIGON=$(cd "$1" && pwd) && export TIGON
PATH=$(cd "$2" && pwd):$PATH && export PATH
unset TIGON_SOC TIGON_DEVICE TIGON_IMPL TIGON_BACKEND_PATH ASCEND_UB_CAPACITY_BITS
show=${3:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Blocks into files 01.sh, 02.text, 03.c, ... in the document's order.
mkdir "$work/blocks" "$work/run"
awk -v folder="$work/blocks" '
    /^```(sh|c|text)$/ { file = sprintf("%s/%02d.%s", folder, ++n, substr($0, 4)); next }
    /^```/ { file = ""; next }
    file { print > file }' "$document"

# Numbers, and how far apart columns are, may change.
plain() {
    sed -E 's/-?[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?/#/g; s/[[:space:]]+/ /g; s/ $//' "$1"
}
cd "$work/run"
compared=0
for block in "$work"/blocks/*; do
    case $block in
    *.c)
        name=$(sed -n '1s|^/\* \([a-z_]*\.c\) - .*|\1|p' "$block")
        [ -n "$name" ] || { echo "the C block $(head -1 "$block") names no file"; exit 1; }
        cp "$block" "$name"
        ;;
    *.sh)
        if head -1 "$block" | grep -q '^git clone'; then continue; fi
        sh -e "$block" >"$work/output" 2>&1 || { cat "$block" "$work/output"; echo "this block fails"; exit 1; }
        [ -z "$show" ] || { echo "---- $(head -1 "$block")"; cat "$work/output"; }
        plain "$work/output" >"$work/found"
        ;;
    *.text)
        plain "$block" | grep -vE '^( ?\.\.\.)?$' >"$work/expected"
        while IFS= read -r line; do
            compared=$((compared + 1))
            grep -qxF -- "$line" "$work/found" && continue
            [ -n "$show" ] && echo "not printed: $line" && continue
            echo "the document shows what is not printed: $line"
            cat "$work/output"
            exit 1
        done <"$work/expected"
        ;;
    esac
done
[ "$compared" -gt 0 ] || { echo "the document shows nothing"; exit 1; }
echo "$compared lines are as the document shows them"
