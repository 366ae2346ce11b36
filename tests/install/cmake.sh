#!/bin/sh
# A consumer that uses CMake: find_package(Tigon), shared and static.
#   cmake.sh PREFIX C_COMPILER
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$(dirname "$0")/consumer.c" "$work"
cat >"$work/CMakeLists.txt" <<'PROJECT'
cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES C)
find_package(Tigon 0.1 REQUIRED)
foreach(kind tigon tigon_static)
    add_executable(with_${kind} consumer.c)
    target_link_libraries(with_${kind} PRIVATE Tigon::${kind} m)
endforeach()
PROJECT
cmake -S "$work" -B "$work/build" -DCMAKE_C_COMPILER="$2" -DCMAKE_PREFIX_PATH="$1" >/dev/null
cmake --build "$work/build" >/dev/null
"$work/build/with_tigon"
"$work/build/with_tigon_static"
