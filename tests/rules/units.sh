#!/bin/sh
# What a file of src/ may be, by its name (docs/architecture.md): roles in a family's folder, and headers that hold no bodies.
#   units.sh SOURCE_DIR
set -eu
cd "$1"
failed=0
complain() {
    echo "$1"
    failed=1
}

for folder in src/ops/*/; do
    family=$(basename "$folder")
    for file in "$folder"*.[ch]; do
        name=$(basename "$file")
        echo "$name" | grep -qE "^${family}(_cpu|_unfused)?\.h\$|^${family}(_shared|_(ref|unfused|cpu|kernel)(_[a-z0-9]+)*)?\.c\$" ||
            complain "$file: no role of a family's files has such a name"
        case $name in *.h) ;; *) continue ;; esac
        lines=$(wc -l <"$file")
        [ "$lines" -le 200 ] || complain "$file: $lines lines, expected 200 at most"
        [ "$(grep -l "\"$name\"" "$folder"*.[ch] | wc -l)" -ge 2 ] ||
            complain "$file: one file includes it: what stands here belongs there"
    done
done

# A function's body begins with a brace in the first column; what stands before it, back to an empty line, a brace, a comment or
# a directive, is its head.
find src -name '*.h' | sort | while read -r header; do
    awk -v file="$header" '
        /^{$/ && head !~ / inline |SIMD_INLINE| v_copy_part\(/ { print file ":" NR ": a header defines a function that is not inline:" head }
        /^$|^}|^#|^ \*|^\/\*|;$/ { head = ""; next }
        { head = head " " $0 }
    ' "$header"
done | grep . && failed=1
exit $failed
