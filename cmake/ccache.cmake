# What has been compiled is kept in the build folder, by ccache where it is installed: the tests that build Tigon anew, of a copy of
# the tree or with other options, compile only what differs. A launcher that is named keeps its place.
if(NOT PROJECT_IS_TOP_LEVEL OR NOT TIGON_TESTS OR CMAKE_CROSSCOMPILING OR NOT CMAKE_BUILD_TYPE STREQUAL "Release" OR CMAKE_C_COMPILER_LAUNCHER)
    return()
endif()
find_program(TIGON_CCACHE ccache)
mark_as_advanced(TIGON_CCACHE)
if(NOT TIGON_CCACHE)
    return()
endif()
# Paths below the tree are taken as seen from the folder of the build, so that a copy's are the same.
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/ccache.sh CONTENT [[#!/bin/sh
: "${CCACHE_BASEDIR:=@PROJECT_SOURCE_DIR@}"
CCACHE_DIR='@PROJECT_BINARY_DIR@/ccache' CCACHE_NOHASHDIR=1 CCACHE_MAXSIZE=1G
export CCACHE_BASEDIR CCACHE_DIR CCACHE_NOHASHDIR CCACHE_MAXSIZE
exec '@TIGON_CCACHE@' "$@"
]] @ONLY)
file(CHMOD ${PROJECT_BINARY_DIR}/ccache.sh PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
set(CMAKE_C_COMPILER_LAUNCHER ${PROJECT_BINARY_DIR}/ccache.sh)
