/* asc_simd.h - the SIMD C API of an Ascend 910B vector core, in C11, on the model.
 *
 * Kernels are the same source that CANN's compiler takes: names, argument order and units are the published API's. A call
 * picks its form by the number of its arguments and its instruction by the types of its pointers; other types do not
 * compile, and gcc names the signature that it found. What the API declares but this chip does not implement is absent.
 * UB is one arena: take addresses with asc_get_phy_buf_addr(); arrays in UB (__ubuf__ T a[N]) are not modelled.
 *
 * A chip has two kinds of pointer, __gm__ and __ubuf__, and CANN's compiler takes neither for the other nor for a plain one. For the
 * model all memory is the host's, and a qualifier that is missing changes nothing. With ASC_LINT, which ascsim lint
 * defines, they are two of gcc's address spaces, and such a pointer is an error.
 */
#ifndef ASC_SIMD_H
#define ASC_SIMD_H

#include <stddef.h>

#include "asc_calls.h"

#ifdef ASC_LINT /* behind an if or for gcc takes __seg_fs for a variable's name, unless something stands before it */
#define __gm__ __attribute__(()) __seg_gs
#define __ubuf__ __attribute__(()) __seg_fs
#else
#define __gm__
#define __ubuf__
#endif
#define __global__ __attribute__((visibility("default")))
#define __vector__
#define __aicore__

/* What a kernel may use of a core's 192 KiB; 8 KiB less if CANN's compiler is not told --cce-disable-asc-reserved-ubuf. */
#define ASC_UB_SIZE (192 * 1024 - 256)

/* ---- the machinery of the macros ---- */

/* An operand in UB, in GM, as the model takes it; gcc names these functions where ascsim lint finds another. */
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

#include "asc_convert.h"
#include "asc_move.h"
#include "asc_rearrange.h"
#include "asc_scalar.h"
#include "asc_vector.h"

#endif
