#!/bin/sh
# The operators that the backend ascend declares, a line each.
#   operators.sh SOURCE_DIR
sed -nE 's/^ASCEND_OPERATOR(_IF)?\(([a-z0-9_]+),.*/\2/p' "$1"/backends/ascend/*.c
