#!/bin/sh
# The C program in README.md compiles against an installed Tigon, without a warning, and runs; it stays within 20 lines
# or so.
#   example.sh PREFIX C_COMPILER
set -eu
readme=$(dirname "$0")/../../README.md
pc=$(find "$1" -name tigon.pc)
PKG_CONFIG_PATH=$(dirname "$pc") && export PKG_CONFIG_PATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
awk '/^```c$/ { inside = 1; next } /^```/ { inside = 0 } inside' "$readme" >"$work/example.c"
grep -q 'int main' "$work/example.c" || { echo "README.md has no program"; exit 1; }
$2 -std=c11 -Wall -Wextra -Werror "$work/example.c" -o "$work/example" $(pkg-config --cflags --libs tigon)
LD_LIBRARY_PATH=$(pkg-config --variable=libdir tigon) "$work/example" | tee "$work/output"
# What it prints is what README.md says that it prints, but for the processor's level.
sed -E 's/\.v[0-9][a-z0-9]*:/.LEVEL:/' "$work/output" >"$work/found"
awk '/^```text$/ { inside = 1; next } /^```/ { if (inside) exit } inside' "$readme" |
    sed -E 's/\.v[0-9][a-z0-9]*:/.LEVEL:/' | diff - "$work/found" || { echo "README.md shows another output"; exit 1; }
