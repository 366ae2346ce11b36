#!/bin/sh
# Who may include what: the arrows of docs/architecture.md, read off the #include lines.
#   includes.sh SOURCE_DIR
set -eu
cd "$1"
found=$(mktemp)
trap 'rm -f "$found"' EXIT

# C sources below the given paths, with their #include lines: "file:#include <x>".
includes() {
    for path in "$@"; do
        [ -e "$path" ] && echo "$path"
    done | xargs -r -I{} find {} \( -name '*.c' -o -name '*.h' -o -name '*.inc' -o -name '*.cu' \) -print |
        xargs -r grep -HnE '^[[:space:]]*#[[:space:]]*include' || true
}
rule() { # WHAT: offending lines on stdin
    if lines=$(grep .); then
        echo "$lines" | sed "s|^|$1: |" | tee -a "$found"
    fi
}

includes tools examples bench tests bindings | grep -v '"c_api/asc_simd\.h"' | grep -E '(core|simd|eager|gemm|ops)/|simd\.h|services\.h|\.\./.*(src|backends)' |
    rule "tools, examples and tests stand on include/tigon alone" || true
includes include | grep -vE '(<|")(tigon/[a-z_]+\.(h|def)|std(int|def)\.h)(>|")' |
    rule "public headers include public and standard headers alone" || true
includes src/core | grep -E '(simd|eager|gemm|ops/|onednn|dnnl)' | grep -v '"tigon/' |
    rule "core knows no operator" || true
includes src/rows | grep -E '"' | grep -vE '"(core/services\.h|simd(/simd)?\.h|runs\.h|rows/[a-z]+\.h)"' |
    rule "the layer for rows knows core's services and vectors alone" || true
includes src/simd | grep -E '"' | grep -vE '"simd(_[a-z]+)?\.h"' | rule "simd includes nothing of ours" || true
includes backends | grep -E '(core/|simd\.h|services\.h|\.\./)' | grep -v '"c_api/asc_simd\.h"' |
    rule "a backend includes public headers and its SDK's alone" || true
includes sim | grep -E 'tigon/|ops/|core/' | rule "the model knows no operator" || true

# One family does not include another: they meet in dispatch.
for folder in src/ops/*/ src/gemm/; do
    [ -d "$folder" ] || continue
    family=$(basename "$folder")
    includes "$folder" | grep -oE '^[^:]+:[0-9]+:.*"(ops|gemm)/[^"]*"' | grep -v "ops/$family/" |
        rule "a family includes another" || true
done

# Anywhere in our C files: OpenMP in thread.c alone, intrinsics in src/simd, and where core has to be fast, alone.
sources() {
    find include src tools examples backends tests bench sim \( -name '*.c' -o -name '*.h' \) 2>/dev/null
}
sources | grep -v '^src/core/thread\.c$' | xargs grep -HnE 'omp\.h|#[[:space:]]*pragma[[:space:]]+omp|\bomp_[a-z]+\(' |
    rule "OpenMP lives in src/core/thread.c alone" || true
# (The benchmark's probe of the machine stands on no header of src, and needs streaming stores. Core looks through the targets
# of every call, and stands on no level.)
sources | grep -vE '^(src/simd/|tools/tigon/limits\.c$|src/core/indices\.c$)' | xargs grep -HnE 'immintrin\.h|arm_neon\.h|arm_sve\.h|\b_mm(256|512)?_[a-z0-9_]+\(|__builtin_ia32_[a-z0-9_]+|\bv[a-z]+q_[fsu](16|32)\(' |
    rule "intrinsics live in src/simd and src/core/indices.c alone" || true
# The reference is plain C: no vectors, no matrix product of others, no threads.
find src -name '*_ref.c' -print | xargs -r grep -HnE 'simd|eager|parallel_for|tg_gemm\(|pthread|vector_size|tg_call' |
    rule "a reference uses no simd, gemm or threads" || true
# Kernels do not print, allocate, read the environment or start threads.
find src/ops src/gemm src/rows src/rotary \( -name '*_cpu*.[ch]' -o -name '*_kernel*.c' -o -path 'src/rows/*' \) 2>/dev/null | xargs -r grep -HnE '\b(malloc|calloc|realloc|free|printf|fprintf|getenv|pthread_create)\(' |
    rule "kernels neither allocate nor print" || true
# The library never ends the process or prints (the log is core's).
find src -name '*.c' | xargs -r grep -HnE '\b(abort|exit|assert|printf|puts|perror)\(' |
    rule "the library never aborts, exits or prints" || true

if [ -s "$found" ]; then
    exit 1
fi
echo "include rules hold"
