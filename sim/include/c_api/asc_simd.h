/* asc_simd.h - the SIMD C API of an Ascend 910B's cores, in C11, on the model.
 *
 * Kernels are the same source that CANN's compiler takes: names, argument order and units are the
 * published API's. A call picks its form by the number of its arguments and its instruction by the
 * types of its pointers; other types do not compile, and gcc names the signature that it found.
 * What kernels may call is what CANN documents for this chip, calls_2201.txt; what it declares but
 * does not implement is an error that says so (asc_absent.h). Each memory of a core is one arena:
 * take addresses with asc_get_phy_buf_addr(), which counts from 0 in each of them; arrays in UB
 * (__ubuf__ T a[N]) are not modelled.
 *
 * A chip has a kind of pointer for each memory, and CANN's compiler takes none for another nor for
 * a plain one. For the model all memory is the host's, and a qualifier that is missing changes
 * nothing. ascsim lint compiles a kernel once for each memory of a core, in which __gm__ and that
 * memory's qualifier (ASC_LINT_UBUF, ...) are two of gcc's address spaces, and such a pointer is an
 * error. */
#ifndef ASC_SIMD_H
#define ASC_SIMD_H

#include <stddef.h>

#include "asc_calls.h"

#ifdef ASC_LINT_GM
#define __gm__ ASC_LINT_GM
#else
#define __gm__
#endif
#ifdef ASC_LINT_UBUF
#define __ubuf__ ASC_LINT_UBUF
#else
#define __ubuf__
#endif
#ifdef ASC_LINT_CBUF
#define __cbuf__ ASC_LINT_CBUF
#else
#define __cbuf__
#endif
#ifdef ASC_LINT_CA
#define __ca__ ASC_LINT_CA
#else
#define __ca__
#endif
#ifdef ASC_LINT_CB
#define __cb__ ASC_LINT_CB
#else
#define __cb__
#endif
#ifdef ASC_LINT_CC
#define __cc__ ASC_LINT_CC
#else
#define __cc__
#endif
#ifdef ASC_LINT_FBUF
#define __fbuf__ ASC_LINT_FBUF
#else
#define __fbuf__
#endif
#define __biasbuf__

#define __global__ __attribute__((visibility("default")))
/* The kind of a kernel: which cores make a block of it. The model reads it off the section that the
 * kernel stands in. */
#define __vector__
#define __cube__ __attribute__((section("asc_cube")))
#define __mix__(cubes, vectors) ASC_MIX_SECTION(cubes, vectors)
#define ASC_MIX_SECTION(cubes, vectors) __attribute__((section("asc_mix_" #cubes #vectors)))
#define __aicore__

/* What a kernel may use of a core's 192 KiB; 8 KiB less if CANN's compiler is not told
 * --cce-disable-asc-reserved-ubuf. */
#define ASC_UB_SIZE (192 * 1024 - 256)
#define ASC_L1_SIZE (512 * 1024 - 256)

/* ---- the machinery of the macros ---- */

/* An operand in UB, in GM, as the model takes it; gcc names these functions where ascsim lint finds
 * another. */
static inline void *asc_needs_ubuf(__ubuf__ void *at)
{
    return (void *)(uintptr_t)at;
}
static inline void *asc_needs_gm(__gm__ void *at)
{
    return (void *)(uintptr_t)at;
}
static inline uint32_t *asc_needs_ubuf_offsets(__ubuf__ uint32_t *at)
{
    return (uint32_t *)(uintptr_t)at;
}

#define ASC_SITE(name)                                               \
    (__extension__({                                                 \
        static const asc_site asc_here = {__FILE__, __LINE__, name}; \
        &asc_here;                                                   \
    }))
/* Form's expansion, then a barrier of all pipes; the name comes first in both. */
#define ASC_SYNCED(form, name, ...) \
    (form(name, __VA_ARGS__), asc_issue_barrier(ASC_SITE(name), PIPE_ALL))

/* ASC_PICK(prefix, arguments...): prefix followed by the number of arguments. */
#define ASC_PICK(prefix, ...) ASC_PICK_(prefix, __VA_ARGS__, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1)
#define ASC_PICK_(prefix, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, n, ...) prefix##n

/* The operands' types as one type, which a flat _Generic tells apart. */
#define ASC_SIGNATURE2(a, b) ((void (*)(__typeof__(a), __typeof__(b)))0)
#define ASC_SIGNATURE3(a, b, c) ((void (*)(__typeof__(a), __typeof__(b), __typeof__(c)))0)
#define ASC_C_HALF half
#define ASC_C_FLOAT float
#define ASC_C_BF16 bfloat16_t
#define ASC_C_I8 int8_t
#define ASC_C_U8 uint8_t
#define ASC_C_I16 int16_t
#define ASC_C_U16 uint16_t
#define ASC_C_I32 int32_t
#define ASC_C_U32 uint32_t
#define ASC_C_I64 int64_t
/* dst and sources of the types D and S: one association of a _Generic. */
#define ASC_FROM1(D, S) \
    void (*)(__ubuf__ ASC_C_##D *, __ubuf__ ASC_C_##S *) : ASC_TYPES(ASC_##D, ASC_##S)
#define ASC_FROM2(D, S)                                                        \
    void (*)(__ubuf__ ASC_C_##D *, __ubuf__ ASC_C_##S *, __ubuf__ ASC_C_##S *) \
        : ASC_TYPES(ASC_##D, ASC_##S)
#define ASC_SAME1(T) ASC_FROM1(T, T)
#define ASC_SAME2(T) ASC_FROM2(T, T)

#define ASC_BITS(pointer, value) \
    _Generic((pointer),                                                                            \
        __ubuf__ half *: asc_bits_half,                                                            \
        __ubuf__ float *: asc_bits_float,                                                          \
        __ubuf__ bfloat16_t *: asc_bits_bf16,                                                      \
        __ubuf__ int8_t *: asc_bits_i8,                                                            \
        __ubuf__ int16_t *: asc_bits_i16,                                                          \
        __ubuf__ uint16_t *: asc_bits_u16,                                                         \
        __ubuf__ int32_t *: asc_bits_i32,                                                          \
        __ubuf__ uint32_t *: asc_bits_u32)(value)

#include "asc_absent.h"
#include "asc_convert.h"
#include "asc_cross.h"
#include "asc_cube.h"
#include "asc_move.h"
#include "asc_rearrange.h"
#include "asc_scalar.h"
#include "asc_vector.h"

#endif
