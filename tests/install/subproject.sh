#!/bin/sh
# Tigon as a part of another project, one in C++ alone: by FetchContent, in two of that project's folders, and static; then by
# add_subdirectory, shared and with install rules. The two share their objects, which are compiled once.
#   subproject.sh SOURCE_DIR C_COMPILER CMAKE [-DVARIABLE=VALUE...]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
source=$1
compiler=$2
cmake=$3
shift 3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# A copy with its build folder in it, at the place where `make` has it: what a compiler cache keeps of that is found again.
tigon=$work/tigon
binary=$tigon/tigon-build
export CCACHE_BASEDIR="$tigon"
sh "$here/../common/copy_tree.sh" "$source" "$tigon"
for folder in one two; do
    mkdir "$work/$folder"
    cp "$here/consumer.cpp" "$work/$folder"
    cat >"$work/$folder/CMakeLists.txt" <<PROJECT
if(HOW STREQUAL "FetchContent")
    include(FetchContent)
    FetchContent_Declare(tigon SOURCE_DIR \${TIGON})
    FetchContent_MakeAvailable(tigon)
endif()
add_executable($folder consumer.cpp)
target_link_libraries($folder PRIVATE Tigon::tigon)
PROJECT
done
cat >"$work/CMakeLists.txt" <<'PROJECT'
cmake_minimum_required(VERSION 3.22)
project(parent LANGUAGES CXX)
get_cmake_property(cached_before CACHE_VARIABLES)
if(HOW STREQUAL "add_subdirectory")
    set(flags "${CMAKE_C_FLAGS}|${CMAKE_CXX_FLAGS}|${CMAKE_BUILD_TYPE}|${CMAKE_RUNTIME_OUTPUT_DIRECTORY}")
    add_subdirectory(${TIGON} ${FETCHCONTENT_BASE_DIR}/tigon-build)
    if(NOT flags STREQUAL "${CMAKE_C_FLAGS}|${CMAKE_CXX_FLAGS}|${CMAKE_BUILD_TYPE}|${CMAKE_RUNTIME_OUTPUT_DIRECTORY}")
        message(FATAL_ERROR "the parent's settings have changed")
    endif()
    add_executable(with_static one/consumer.cpp)
    target_link_libraries(with_static PRIVATE Tigon::tigon_static)
endif()
add_subdirectory(one)
add_subdirectory(two)
# What CMake itself keeps: of projects, languages, FetchContent, install folders and the search for OpenMP.
get_cmake_property(cached CACHE_VARIABLES)
list(REMOVE_ITEM cached ${cached_before})
list(FILTER cached EXCLUDE REGEX "^(TIGON|tigon|FETCHCONTENT|CMAKE|_GNUInstallDirs|OpenMP|FIND_PACKAGE_MESSAGE_DETAILS)_")
if(cached)
    message(FATAL_ERROR "Tigon leaves in the cache: ${cached}")
endif()
PROJECT

# build HOW -DVARIABLE=VALUE...: the parent, compiled and run
build() {
    "$cmake" -S "$work" -B "$work/build" -DHOW="$@" -DTIGON="$tigon" -DFETCHCONTENT_BASE_DIR="$tigon" -DCMAKE_C_COMPILER="$compiler" \
        -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE="-O3 -g1" >"$work/log" 2>&1 &&
        "$cmake" --build "$work/build" -j 2 >"$work/log" 2>&1 || { tail -30 "$work/log"; exit 1; }
    "$work/build/one/one"
    "$work/build/two/two"
}
fail() { echo "$*"; exit 1; }
listed() { find "$1" \( -type f -o -type l \) -name "$2" | grep -v /CMakeFiles/; }

build FetchContent "$@"
others=$(listed "$binary" 'lib*' | grep -v '/libtigon\.a$') && fail "more than the static library is built: $others"
others=$("$cmake" --build "$work/build" --target help | grep -oE '\b(llama|ascsim[a-z_]*|tigon_command|test_programs)\b') &&
    fail "there are targets of the tools or tests: $others"
"$cmake" --install "$work/build" --prefix "$work/nothing" >/dev/null
[ -z "$(find "$work/nothing" -type f 2>/dev/null)" ] || fail "files are installed, which nobody asked for"
(cd "$work/build" && ctest -N) | grep -q 'Total Tests: 0' || fail "the parent has tests"

build add_subdirectory "$@" -DBUILD_SHARED_LIBS=ON -DTIGON_INSTALL=ON
ldd "$work/build/one/one" | grep -q libtigon.so || fail "BUILD_SHARED_LIBS=ON: the program needs no libtigon.so"
"$work/build/with_static"
"$cmake" --install "$work/build" --prefix "$work/installed" >/dev/null
sh "$here/cmake.sh" "$work/installed" "$compiler" "$cmake"
