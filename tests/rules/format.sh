#!/bin/sh
# C sources are formatted as .clang-format says. Versions differ in their opinion: the rule is that of 14 (Debian 12).
#   format.sh SOURCE_DIR
set -eu
cd "$1"
tool=clang-format
command -v clang-format-14 >/dev/null && tool=clang-format-14
if ! $tool --version 2>/dev/null | grep -q 'version 14\.'; then
    echo "clang-format 14 is not here: not checked (apt-get install clang-format)"
    exit 77
fi
{ git ls-files '*.c' '*.h' 2>/dev/null || find include src tools examples backends tests -name '*.[ch]'; } |
    xargs $tool --dry-run -Werror
