#!/bin/sh
# Installs the build into a folder of its own; nothing but what is meant to be there is there.
#   install.sh CMAKE BUILD_DIR PREFIX
set -eu
rm -rf "$3"
"$1" --install "$2" --prefix "$3" >/dev/null
cd "$3"
for file in include/tigon/tigon.h include/tigon/ops.def bin/tigon share/man/man1/tigon.1 share/tigon/template/CMakeLists.txt \
    share/tigon/template/README.md share/tigon/template/acme.h share/tigon/template/backend.c share/tigon/template/rms_norm.c; do
    [ -e "$file" ] || { echo "$file is not installed"; exit 1; }
done
for name in libtigon.so libtigon.a TigonConfig.cmake tigon.pc; do
    [ -n "$(find . -name "$name")" ] || { echo "$name is not installed"; exit 1; }
done
others=$(find include -type f -not -path 'include/tigon/*')
[ -z "$others" ] || { echo "more than include/tigon is installed: $others"; exit 1; }
