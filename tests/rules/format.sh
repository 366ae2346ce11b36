#!/bin/sh
# C and CUDA sources are formatted as .clang-format says, and no line of them goes beyond 100 columns. Versions of the formatter differ
# in their opinion: the rule is that of 14 (Debian 12).
#   format.sh SOURCE_DIR
set -eu
cd "$1"
tool=clang-format
command -v clang-format-14 >/dev/null && tool=clang-format-14
if ! $tool --version 2>/dev/null | grep -q 'version 14\.'; then
    echo "clang-format 14 is not here: not checked (apt-get install clang-format)"
    exit 77
fi
sources() { # of these kinds: c h inc def cu cuh
    for kind; do
        git ls-files "*.$kind" 2>/dev/null || find include src tools examples backends tests -name "*.$kind"
    done
}
sources c h cu cuh | xargs $tool --dry-run -Werror
# The formatter leaves comments as they are, and does not see tables.
sources c h inc def cu cuh | xargs awk 'length > 100 { print FILENAME ":" FNR ": goes beyond 100 columns"; bad = 1 } END { exit bad }'
