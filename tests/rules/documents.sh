#!/bin/sh
# What the documents say exists: `make` targets, files linked to, presets, sub-commands.
#   documents.sh SOURCE_DIR
set -eu
cd "$1"
failed=0
complain() {
    echo "$1"
    failed=1
}
# Documents of the tree; a family's README counts from its folder.
documents=$(find . -name '*.md' -not -path './build*' -not -path '*/.*/*' -not -path './shared/*')
for document in $documents; do
    folder=$(dirname "$document")
    for target in $(grep -oE '(^|[`; ]|&& )make [a-z][a-z0-9-]*' "$document" | sed 's/.*make //' | sort -u); do
        case $target in a | an | it | the | sure | them | this | sense | up) continue ;; esac
        grep -qE "^$target:|^\.PHONY:.* $target( |$)" Makefile || complain "$document: make $target: no such target"
    done
    for preset in $(grep -oE '(cmake|ctest)( --build)? --preset [a-z0-9]+' "$document" | sed 's/.* //' | sort -u); do
        grep -q "\"$preset\"" CMakePresets.json || complain "$document: no preset $preset"
    done
    for link in $(grep -oE '\]\([^)#: ]+' "$document" | sed 's/^](//' | sort -u); do
        [ -e "$folder/$link" ] || complain "$document: $link: no such file"
    done
    for command in $(grep -oE '(^|`|\$ |/)tigon [a-z][a-z-]*( |`|$)' "$document" | sed 's/.*tigon \([a-z-]*\).*/\1/' | sort -u); do
        grep -q "{\"$command\", command_" tools/tigon/main.c || complain "$document: tigon $command: no such sub-command"
    done
done
# Every operator is documented in the reference manual, every family by a README.
sed -n 's/^TG_OP(\([a-z0-9_]*\),.*/\1/p' include/tigon/ops.def | while read -r op; do
    grep -q "tg_$op(" include/tigon/ops.h || echo "ops.h: tg_$op is not documented"
done | grep . && failed=1
for folder in src/ops/*/ src/gemm/; do
    [ ! -d "$folder" ] || [ -e "${folder}README.md" ] || complain "${folder}README.md is missing"
done
exit $failed
