#!/bin/sh
# The tables that the command writes into documents have today's form: operators, problems, implementations, columns. Their
# digits depend on the processor and are not compared.
#   tables.sh TIGON SOURCE_DIR
set -eu
tigon=$1
cd "$2"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
same() { # WHAT COMMAND: $work/found is of the document, $work/expected of the program
    diff "$work/found" "$work/expected" >"$work/diff" && return
    echo "$1 is not what the program has (<: document); $2"
    cat "$work/diff"
    exit 1
}

# A fresh copy differs from the document in digits alone: not in lines, not in what stands outside the markers.
form() {
    sed -e 's/^\(| `[a-z0-9_]*` | [^|]* |\).*/\1/' -e 's/^| [0-9].*/| digits/' -e 's/^\(Measured on .* level\).*/\1/' "$1"
}
cp docs/numerics.md "$work/numerics.md"
"$tigon" numerics --update "$work/numerics.md"
form docs/numerics.md >"$work/found"
form "$work/numerics.md" >"$work/expected"
same docs/numerics.md "build/tigon numerics --update docs/numerics.md writes it"
"$tigon" list | grep '^[a-z]' >"$work/expected"
sed -n 's/^| `\([a-z0-9_]*\)` |.*/\1/p' docs/numerics.md | uniq >"$work/found"
same "docs/numerics.md: operators" "an operator needs a hard problem (TG_HARD)"

section() { # DOCUMENT NAME
    sed -n "/^<!-- $2 -->\$/,/^<!-- end: $2 -->\$/p" "$1"
}
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
"$tigon" list | grep -v ' device ' | sed -n 's/^  \([a-z0-9]*\)\/.*/\1/p' | awk '!seen[$0]++' >"$work/expected"
same "README.md: implementations" "$again"
