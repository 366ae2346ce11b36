#!/bin/sh
# ascsim lint: a pointer that lacks its qualifier, or a call that CANN does not document for this
# chip, planted in a kernel whose clean twin passes, is found in words of the kernel.
#   lint.sh ASCSIM COMPILER FOLDER_OF_EXAMPLES
set -eu
export LC_ALL=C
ascsim=$1
export CC="$2"
examples=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    echo "FAILED: $1"
    exit 1
}
if ! printf '__seg_fs float *x;\n' | "$CC" -xc -fsyntax-only - 2>/dev/null; then
    echo "this compiler has no __seg_fs"
    exit 77
fi
lint() { # EXPECTED_STATUS ARGUMENTS...
    expected=$1
    shift
    found=0
    "$ascsim" lint "$@" >"$work/out" 2>&1 || found=$?
    [ "$found" = "$expected" ] || { cat "$work/out"; fail "lint $*: status $found, expected $expected"; }
}
says() {
    grep -qF -- "$1" "$work/out" || { cat "$work/out"; fail "does not say: $1"; }
}

cat >"$work/clean.c" <<'C'
#include "c_api/asc_simd.h"
static inline __aicore__ void twice(__ubuf__ float *y, __ubuf__ float *x, uint32_t n)
{
    asc_mul_scalar(y, x, 2.0f, n);
}
__global__ __vector__ void kernel(__gm__ float *x, __gm__ half *y, uint32_t n)
{
    asc_init();
    if (n > 256)
        n = 256;
    __ubuf__ float *tile = (__ubuf__ float *)asc_get_phy_buf_addr(0);
    __ubuf__ half *narrow = (__ubuf__ half *)asc_get_phy_buf_addr(1024);
    asc_copy_gm2ub_align(tile, x, n * 4);
    asc_sync();
    twice(tile, tile, n);
    asc_sync_pipe(PIPE_V);
    asc_float2half_rn(narrow, tile, n);
    asc_sync();
    asc_copy_ub2gm_align(y, narrow, n * 2);
    asc_dcci_single(y);
}
C
lint 0 "$work/clean.c"
[ ! -s "$work/out" ] || { cat "$work/out"; fail "a clean kernel is talked about"; }

# Each line of the kernel in turn without one of its qualifiers, or with the other one.
count=0
plant() { # SED_EXPRESSION WORDS
    sed "$1" "$work/clean.c" >"$work/planted.c"
    ! cmp -s "$work/clean.c" "$work/planted.c" || fail "$1 plants nothing"
    lint 1 "$work/planted.c"
    says "planted.c:"
    says "$2"
    ! grep -q __seg_ "$work/out" || { cat "$work/out"; fail "speaks of gcc's address spaces"; }
    count=$((count + 1))
}
plant 's/twice(__ubuf__ float \*y/twice(float *y/' "float *"
plant 's/__ubuf__ float \*x, uint32_t/float *x, uint32_t/' "float *"
plant 's/kernel(__gm__ float/kernel(float/' "float *"
plant 's/__gm__ half/half/' "half *"
plant 's/__gm__ half/__ubuf__ half/' "__ubuf__"
plant 's/    __ubuf__ float \*tile/    float *tile/' "__ubuf__"
plant 's/= (__ubuf__ float/= (float/' "__ubuf__"
plant 's/    __ubuf__ half/    __gm__ half/' "__gm__"
plant 's/asc_copy_gm2ub_align(tile, x/asc_copy_gm2ub_align(x, tile/' "__gm__"
plant 's/asc_dcci_single(y)/asc_dcci_single(narrow)/' "asc_needs_gm"
plant 's/twice(tile, tile/twice(tile, x/' "argument 2 of 'twice'"
plant 's/asc_get_phy_buf_addr(1024)/asc_get_phy_buf_addr(4 * n)/' "asc_the_offset_must_be_a_constant"
plant 's/asc_sync_pipe(PIPE_V)/asc_sync_pipe(PIPE_S)/' "PIPE_S"

# Calls that CANN declares for another architecture, and what is no call of CANN's at all.
plant 's/asc_dcci_single(y)/asc_store_dev((__gm__ int32_t *)x, 1)/' "CANN has it for architecture 3510, not for 2201"
plant 's/n = 256/n = (uint32_t)asc_float2int32_rn(2.0f)/' "CANN has it for architecture 3510, not for 2201"
plant 's/n = 256/n = (uint32_t)asc_float2int32_rn(tile, x, y, n)/' "ASC_CONVERT_4"
plant 's/n = 256/n = (uint32_t)asc_round(2.0f)/' "asc_round"
plant 's/n = 256/n = (uint32_t)sqrtf(2.0f)/' "sqrtf"
plant 's/n = 256/n = (uint32_t)__builtin_sqrtf(2.0f)/' "planted.c:10: error: __builtin_sqrtf is no call that CANN documents"
plant 's/n = 256/__asm__("nop")/' "__asm__ is no call"
plant 's/^#include.*/&\n#include <math.h>/' "math.h: No such file"

# The memories of a cube core.
cat >"$work/clean.c" <<'C'
#include "c_api/asc_simd.h"
__global__ __cube__ void kernel(__gm__ half *x, __gm__ half *y, __gm__ float *z)
{
    asc_init();
    __cbuf__ half *a1 = (__cbuf__ half *)asc_get_phy_buf_addr(0);
    __cbuf__ half *b1 = (__cbuf__ half *)asc_get_phy_buf_addr(4096);
    __ca__ half *a0 = (__ca__ half *)asc_get_phy_buf_addr(0);
    __cb__ half *b0 = (__cb__ half *)asc_get_phy_buf_addr(0);
    __cc__ float *c0 = (__cc__ float *)asc_get_phy_buf_addr(0);
    __fbuf__ void *scales = (__fbuf__ void *)asc_get_phy_buf_addr(0);
    asc_copy_gm2l1_nd2nz(a1, x, 1, 16, 16, 0, 16, 16, 1, 0);
    asc_copy_gm2l1((__cbuf__ void *)b1, (__gm__ void *)y, 1, 16, 0, 0);
    asc_copy_l12l0a(a0, a1, 0, 1, 1, 0);
    asc_copy_l12l0b_trans(b0, b1, 0, 1, 1, 0, false, 0);
    asc_copy_l12fb(scales, (__cbuf__ void *)b1, 64);
    asc_mmad(c0, a0, b0, 16, 16, 16, 0, false, false, true);
    asc_copy_l0c2gm(z, c0, 16, 16, 16, 16, 0, NoQuant, 0, false, true);
}
C
lint 0 "$work/clean.c"
plant 's/__gm__ half \*x/half *x/' "half *"
plant 's/__cbuf__ half \*a1 = (__cbuf__/__gm__ half *a1 = (__gm__/' "asc_copy_gm2l1_nd2nz"
plant 's/    __cbuf__ half \*b1/    half *b1/' "__cbuf__"
plant 's/__ca__ half \*a0 = (__ca__/__cb__ half *a0 = (__cb__/' "asc_needs_ca"
plant 's/    __ca__ half/    half/' "__ca__"
plant 's/__cb__ half \*b0 = (__cb__/__ca__ half *b0 = (__ca__/' "asc_mmad"
plant 's/    __cb__ half/    half/' "__cb__"
plant 's/__cc__ float \*c0 = (__cc__/__ubuf__ float *c0 = (__ubuf__/' "asc_mmad"
plant 's/    __cc__ float/    float/' "__cc__"
plant 's/asc_mmad(c0, a0, b0/asc_mmad(c0, b0, a0/' "asc_mmad"
plant 's/asc_copy_l12l0a(a0, a1/asc_copy_l12l0a(a1, a0/' "asc_copy_l12l0a"
plant 's/__fbuf__ void \*scales = (__fbuf__/__cbuf__ void *scales = (__cbuf__/' "asc_needs_fbuf"
plant 's/asc_copy_l0c2gm(z, c0/asc_copy_l0c2gm(c0, z/' "asc_copy_l0c2gm"

# The examples; options for gcc; bad requests.
lint 0 "-I$examples" "$examples"/*.c
echo '#error "seen"' >"$work/seen.h"
lint 1 "-include" "$work/seen.h" "$work/clean.c"
lint 2
lint 2 -DNOTHING
CC=/no/such/compiler
lint 2 "$work/clean.c"
says "/no/such/compiler cannot be run"
echo "$count planted, all found"
