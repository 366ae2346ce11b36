#!/bin/sh
# A consumer that links libtigon.a, with what pkg-config --static names besides.
#   static.sh PREFIX C_COMPILER
set -eu
pc=$(find "$1" -name tigon.pc)
PKG_CONFIG_PATH=$(dirname "$pc") && export PKG_CONFIG_PATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
libraries=$(pkg-config --static --libs tigon | sed 's/-ltigon/-l:libtigon.a/')
$2 "$(dirname "$0")/consumer.c" -o "$work/consumer" $(pkg-config --cflags tigon) $libraries -lm
if ldd "$work/consumer" | grep libtigon; then
    echo "the program needs libtigon.so"
    exit 1
fi
"$work/consumer"
