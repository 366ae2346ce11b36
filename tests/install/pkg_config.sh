#!/bin/sh
# A consumer that uses pkg-config.
#   pkg_config.sh PREFIX C_COMPILER
set -eu
pc=$(find "$1" -name tigon.pc)
PKG_CONFIG_PATH=$(dirname "$pc") && export PKG_CONFIG_PATH
pkg-config --validate tigon
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
$2 "$(dirname "$0")/consumer.c" -o "$work/consumer" $(pkg-config --cflags --libs tigon) -lm
LD_LIBRARY_PATH=$(pkg-config --variable=libdir tigon) "$work/consumer"
