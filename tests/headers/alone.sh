#!/bin/sh
# Each public header compiles alone, as C99, C11 and C++11 to C++20, without a warning; a backend's table does, too.
#   alone.sh INCLUDE_DIR [C_COMPILER]
set -eu
include=$1
cc=${2:-cc}
failed=0

strict="-pedantic -Wall -Wextra -Werror"

try() { # COMPILER STANDARD LANGUAGE
    for path in "$include"/tigon/*.h; do
        header=tigon/${path##*/}
        echo "#include <$header>" | "$1" -std="$2" -x "$3" $strict -I"$include" -fsyntax-only - ||
            { echo "$header does not compile alone as $2"; failed=1; }
    done
    "$1" -std="$2" -x "$3" $strict -I"$include" -fsyntax-only "$(dirname "$0")/table.c" ||
        { echo "a backend's table does not compile as $2"; failed=1; }
}
try "$cc" c99 c
try "$cc" c11 c
if command -v c++ >/dev/null; then
    for standard in c++11 c++17 c++20; do
        try c++ $standard c++
    done
else
    echo "no C++ compiler: C++ was not tried"
fi

# Zero itself, in options of either kind and in braces, without a narrowing.
options() { # COMPILER STANDARD LANGUAGE
    printf '#include <tigon/tigon.h>\nvoid f(tg_rms_norm_forward_args *, tg_tvd_backward_args *, double, int64_t);\n%s\n%s\n' \
        'void f(tg_rms_norm_forward_args *r, tg_tvd_backward_args *t, double eps, int64_t index) {
            tg_rms_norm_forward_args a = {0, 0, 0, 0, 0, 0, 0, TG_ZERO, TG_VALUE(eps), TG_ZERO};
            tg_tvd_backward_args b = {0, 0, 0, 0, 0, TG_VALUE(index), TG_ZERO};' '*r = a; *t = b; }' |
        "$1" -std="$2" -x "$3" -pedantic -Wall -Wextra -Wconversion -Werror -I"$include" -fsyntax-only - ||
        { echo "TG_ZERO and TG_VALUE do not compile as $2"; failed=1; }
}
options "$cc" c99 c
if command -v c++ >/dev/null; then
    options c++ c++11 c++
    options c++ c++20 c++
fi

# A tensor is DLPack's, field for field, whichever header comes first.
layout() {
    "$cc" -std=c11 -Wall -Wextra -Werror -I"$include" -I"$(dirname "$0")" -fsyntax-only -x c - ||
        { echo "tg_tensor differs from DLTensor"; failed=1; }
}
assertions='
#include <stddef.h>
#define SAME(field) _Static_assert(offsetof(tg_tensor, field) == offsetof(DLTensor, field), #field)
SAME(data); SAME(device); SAME(ndim); SAME(dtype); SAME(shape); SAME(strides); SAME(byte_offset);
_Static_assert(sizeof(tg_tensor) == sizeof(DLTensor), "size");
'
printf '#include <tigon/tensor.h>\n#include "dlpack_layout.h"\n%s' "$assertions" | layout
printf '#define DLPACK_DLPACK_H_\n#include "dlpack_layout.h"\n#include <tigon/tigon.h>\n%s' "$assertions" | layout
exit $failed
