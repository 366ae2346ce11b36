#!/bin/sh
# Consumers that use CMake: find_package(Tigon), shared and static, in a project in C and in one in C++ alone.
#   cmake.sh PREFIX C_COMPILER [CMAKE]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cmake=${3:-cmake}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for language in C CXX; do
    case $language in C) source=consumer.c ;; *) source=consumer.cpp ;; esac
    mkdir "$work/$language"
    cp "$here/$source" "$work/$language"
    cat >"$work/$language/CMakeLists.txt" <<PROJECT
cmake_minimum_required(VERSION 3.22)
project(consumer LANGUAGES $language)
find_package(Tigon 0.1 REQUIRED COMPONENTS static)
foreach(kind tigon tigon_static)
    add_executable(with_\${kind} $source)
    target_link_libraries(with_\${kind} PRIVATE Tigon::\${kind} m)
endforeach()
PROJECT
    CC=$2 "$cmake" -S "$work/$language" -B "$work/$language/build" -DCMAKE_PREFIX_PATH="$1" >/dev/null
    "$cmake" --build "$work/$language/build" >/dev/null
    "$work/$language/build/with_tigon"
    "$work/$language/build/with_tigon_static"
done
