#!/bin/sh
# What a file of src/ may be, by its name (docs/architecture.md): roles in a family's folder. (headers.py: no header holds a body.)
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
        echo "$name" | grep -qE "^${family}(_ref|_cpu(_[a-z0-9]+)*)?\.h\$|^${family}(_shared|_(ref|parts|cpu|kernel)(_[a-z0-9]+)*)?\.c\$" ||
            complain "$file: no role of a family's files has such a name"
        case $name in *.h) ;; *) continue ;; esac
        lines=$(wc -l <"$file")
        [ "$lines" -le 200 ] || complain "$file: $lines lines, expected 200 at most"
        [ "$(grep -l "\"$name\"" "$folder"*.[ch] | wc -l)" -ge 2 ] ||
            complain "$file: one file includes it: what stands here belongs there"
    done
done
exit $failed
