/* src/simd/runs.h - runs of elements of any type as f32, in scratch memory that stays in the cache:
 * for kernels whose tensors have different types, beside their specialisations for one type.
 *
 *   float *at = scratch;
 *   const char *x = run_read(x_type, x, n, &at), *y = run_read(y_type, y, n, &at);
 *   char *z = run_place(z_type, z, n, &at);
 *   ... the kernel for EL_F32 on x, y and z ...
 *   run_write(z_type, z, into, n);
 *
 * scratch: RUN_FLOATS(n) for each of them.
 */
#ifndef TG_RUNS_H
#define TG_RUNS_H

#include "simd.h"

#define RUN_FLOATS(n) (((n) + 2 * VL - 1) / VL * VL)

SIMD_INLINE void run_widen(el e, const void *from, float *to, int64_t n)
{
    int64_t i = 0;
    for (; i + VL <= n; i += VL)
        v_store(EL_F32, to, i, v_load(e, from, i));
    v_store_n(EL_F32, to, i, n - i, v_load_n(e, from, i, n - i, 0));
}

SIMD_INLINE void run_round(el e, const float *from, void *to, int64_t n)
{
    int64_t i = 0;
    for (; i + VL <= n; i += VL)
        v_store(e, to, i, v_load(EL_F32, from, i));
    v_store_n(e, to, i, n - i, v_load_n(EL_F32, from, i, n - i, 0));
}

/* Where f32 results go: to their place, or into scratch. NULL stays NULL. */
static inline char *run_place(el e, const char *at, int64_t n, float **scratch)
{
    char *own = (char *)*scratch;
    if (e == EL_F32 || !at)
        return (char *)at;
    *scratch += RUN_FLOATS(n);
    return own;
}

static inline const char *run_read(el e, const char *from, int64_t n, float **scratch)
{
    float *to = (float *)run_place(e, from, n, scratch);
    if ((const char *)to != from)
        EL_SPECIALIZE(e, run_widen, from, to, n);
    return (const char *)to;
}

/* What run_place() gave, rounded once to where it belongs. */
static inline void run_write(el e, const char *from, char *to, int64_t n)
{
    if (from != to)
        EL_SPECIALIZE(e, run_round, (const float *)from, to, n);
}

#endif
