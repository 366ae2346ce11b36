#!/bin/sh
# Consumers that use pkg-config, in C and in C++, shared and static: they start as they are linked, without help.
#   pkg_config.sh PREFIX C_COMPILER
set -eu
here=$(cd "$(dirname "$0")" && pwd)
pc=$(find "$1" -name tigon.pc)
PKG_CONFIG_PATH=$(dirname "$pc") && export PKG_CONFIG_PATH
unset LD_LIBRARY_PATH
pkg-config --validate tigon
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
for compiler in "$2 -std=c11 $here/consumer.c" "c++ -std=c++17 $here/consumer.cpp" "c++ -std=c++20 $here/consumer.cpp"; do
    $compiler -Wall -Wextra -Werror -o shared $(pkg-config --cflags --libs tigon) \
        -Wl,-rpath,$(pkg-config --variable=libdir tigon) -lm
    ldd shared | grep -q libtigon.so || { echo "$compiler: the program does not need libtigon.so"; exit 1; }
    ./shared
    $compiler -Wall -Wextra -Werror -o static $(pkg-config --static --cflags --libs tigon | sed 's/-ltigon/-l:libtigon.a/')
    if ldd static | grep libtigon; then
        echo "$compiler: the static program needs libtigon.so"
        exit 1
    fi
    ./static
done
