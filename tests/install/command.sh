#!/bin/sh
# The installed command finds its library without help, also after the tree has been moved; the man page is well-formed.
#   command.sh PREFIX
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -R "$1" "$work/moved"
env -u LD_LIBRARY_PATH "$work/moved/bin/tigon" --version
if [ -n "$(find "$work/moved" -name libtigon_ascend_model.so)" ]; then
    env -u LD_LIBRARY_PATH TIGON_DEVICE=npu-model "$work/moved/bin/tigon" check --quick swiglu_forward
    # `tigon report` reads the kernels' text that was installed.
    kernel=$work/moved/share/tigon/ascend/kernels/maps/swiglu.asc.c
    sed -i '1s| - .*| - The installed text.|' "$kernel"
    env -u LD_LIBRARY_PATH "$work/moved/bin/tigon" report swiglu_forward | grep -q 'The installed text' || {
        echo "tigon report does not read $kernel"; exit 1; }
fi
if command -v mandoc >/dev/null; then
    mandoc -T lint -W error "$1/share/man/man1/tigon.1"
fi
manual=$1/share/man/man1/tigon.1
for command in $("$1/bin/tigon" --help | awk '/^  [a-z]/ { print $1 }'); do
    grep -q "Cm $command" "$manual" || { echo "the man page has no tigon $command"; exit 1; }
    for option in $("$1/bin/tigon" "$command" --help | sed -n 's/^  --\([a-z-]*\).*/\1/p'); do
        grep -q "Fl -$option" "$manual" || { echo "the man page lacks tigon $command --$option"; exit 1; }
    done
done
