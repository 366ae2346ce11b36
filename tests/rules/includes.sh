#!/bin/sh
# What sources may use wherever they stand; arrows.py says who may know whom.
#   includes.sh SOURCE_DIR
set -eu
cd "$1"
found=$(mktemp)
trap 'rm -f "$found"' EXIT

rule() { # WHAT: offending lines on stdin
    if lines=$(grep .); then
        echo "$lines" | sed "s|^|$1: |" | tee -a "$found"
    fi
}
sources() {
    find include src formats tools examples backends bindings tests bench sim \( -name '*.c' -o -name '*.h' -o -name '*.inc' -o -name '*.cu' -o -name '*.cuh' \) 2>/dev/null
}
includes() { # FOLDER: its #include lines, "file:line:#include <x>"
    find "$1" -type f -print | xargs grep -HnE '^[[:space:]]*#[[:space:]]*include' || true
}

includes include | grep -vE '(<|")(tigon/[a-z_]+\.(h|def)|std(int|def)\.h)(>|")' |
    rule "public headers include public and standard headers alone" || true
sources | grep -v '^src/core/thread\.c$' | xargs grep -HnE 'omp\.h|#[[:space:]]*pragma[[:space:]]+omp|\bomp_[a-z]+\(' |
    rule "OpenMP lives in src/core/thread.c alone" || true
# (The benchmark's probe of the machine stands on no header of src, and needs streaming stores.)
sources | grep -vE '^(src/simd/|tools/tigon/limits/memory\.c$)' | xargs grep -HnE 'immintrin\.h|arm_neon\.h|arm_sve\.h|\b_mm(256|512)?_[a-z0-9_]+\(|__builtin_ia32_[a-z0-9_]+|\bv[a-z]+q_[fsu](16|32)\(' |
    rule "intrinsics live in src/simd alone" || true
sources | grep -vE '^(src/gemm/|tools/tigon/limits/gemm_onednn\.c$|tests/gemm/|bench/peers/)' | xargs grep -HnE '#[[:space:]]*include.*dnnl' |
    rule "oneDNN is known by gemm, and by what is measured beside it" || true
# (Which of its own rooms know each other is told by arrows.txt.)
includes backends/cuda | grep -vE '"[a-z0-9_/]+\.(cuh|h|inc)"|<(tigon/backend|cuda(_[a-z0-9_]+)?|library_types|math_constants|dlfcn|glob|inttypes|math|pthread|stddef|stdint|stdio|stdlib|string)\.h>' |
    rule "backends/cuda knows tigon/backend.h and CUDA's headers alone" || true
# The reference is plain C: no vectors, no matrix product of others, no threads.
find src -name '*_ref*.c' -print | xargs -r grep -HnE 'parallel_for|tg_gemm\(|pthread|vector_size|tg_call' |
    rule "a reference uses no simd, gemm or threads" || true

if [ -s "$found" ]; then
    exit 1
fi
echo "include rules hold"
