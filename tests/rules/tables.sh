#!/bin/sh
# The tables that the command writes into documents have today's form: operators, problems, implementations, columns. Their
# digits depend on the processor and are not compared.
#   tables.sh TIGON SOURCE_DIR
set -eu
tigon=$1
cd "$2"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
section() { # DOCUMENT NAME
    sed -n "/^<!-- $2 -->\$/,/^<!-- end: $2 -->\$/p" "$1"
}
same() { # WHAT COMMAND: $work/found is of the document, $work/expected of the program
    diff "$work/found" "$work/expected" >"$work/diff" && return
    echo "$1 is not what the program has (<: document); $2"
    cat "$work/diff"
    exit 1
}

again="build/tigon numerics --update docs/numerics.md writes it"
section docs/numerics.md "tigon numerics: table" | sed -n 's/^| `\([a-z0-9_]*\)` | \([^|]*\) |.*/\1 \2/p' >"$work/found"
"$tigon" numerics --list | sed 's/^\([a-z0-9_]*\) "\([^"]*\)".*/\1 \2/' >"$work/expected"
[ "$("$tigon" list | grep -c '^[a-z]')" -eq "$(cut -d' ' -f1 "$work/expected" | uniq | wc -l)" ] || {
    echo "an operator has no hard problem (TG_HARD)"
    exit 1
}
same "docs/numerics.md: operators and problems" "$again"
for name in gradient drift table; do
    section docs/numerics.md "tigon numerics: $name" | grep -B1 '^|---' | grep -v '^|---' || true
done >"$work/found"
"$tigon" numerics --markdown cross_entropy_forward fused_linear_cross_entropy_forward | grep -B1 '^|---' |
    grep '^| ' >"$work/expected"
same "docs/numerics.md: columns" "$again"

again="build/tigon list --matrix --update README.md writes it"
section README.md "tigon list: matrix" | sed -n 's/^| `\([a-z0-9_]*\)` | \([^|]*\) |.*/\1 \2/p' |
    while read -r operator directions; do
        for direction in $(echo "$directions" | tr -d ,); do
            [ "$direction" = - ] && echo "$operator" || echo "${operator}_$direction"
        done
    done >"$work/found"
"$tigon" list | grep '^[a-z]' >"$work/expected"
same "README.md: operators" "$again"
section README.md "tigon list: matrix" | sed -n '2s/^| operator | direction | \(.*\) |$/\1/p' | sed 's/ | /\n/g' >"$work/found"
"$tigon" list | sed -n 's/^  \([a-z0-9]*\)\/.*/\1/p' | awk '!seen[$0]++' >"$work/expected"
same "README.md: implementations" "$again"
