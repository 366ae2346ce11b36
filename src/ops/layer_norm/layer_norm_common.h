/* What forward and backward of layer_norm share, once per ISA level.
 *
 * Whole pairs of vectors are worked on in the lane order of the type (v_load2); f32 arrays of our own (weight, bias, partial
 * sums of their gradients) are kept in that order, but for the last columns that fill no pair.
 */
#ifndef TG_LAYER_NORM_COMMON_H
#define TG_LAYER_NORM_COMMON_H

#include "core/services.h"
#include "simd.h"

/* MIN_CHUNK: elements of work below which another thread does not pay. */
enum { MIN_CHUNK = 16384, ROW_BLOCK = 4 };

static int64_t rows_per_chunk(int64_t n)
{
    return n > 0 && MIN_CHUNK / n > 1 ? MIN_CHUNK / n : 1;
}

SIMD_INLINE void copy_columns(el e, el type, const void *from, float *to, int64_t n)
{
    int64_t j = 0;
    for (; j < v_whole_pairs(n); j += V_PAIR)
        v_put2(to + j, v_load2(e, type, from, j));
    for (; j < n; j += VL)
        v_store_n(EL_F32, to, j, v_tail(n, j), v_load_n(type, from, j, v_tail(n, j), 0));
}

/* A vector of n columns as f32, in workspace; `missing` throughout for NULL. One that is f32 in memory's order already is
 * taken as it is. */
static tg_status load_columns(tg_ctx *ctx, el e, const tg_tensor *t, int64_t n, float missing,
                              const float **columns)
{
    *columns = tg_data(t);
    if (t && e != EL_BF16 && tg_type_of(t) == TG_F32)
        return TG_OK;
    float *copy = tg_workspace(ctx, (size_t)n * sizeof *copy);
    if (!copy)
        return TG_ENOMEM;
    if (t)
        EL_SPECIALIZE(e, copy_columns, (el)tg_el(tg_type_of(t)), tg_data(t), copy, n);
    else
        for (int64_t j = 0; j < n; j++)
            copy[j] = missing;
    *columns = copy;
    return TG_OK;
}

/* 1 if streaming stores suit an output: large, not over an input, each row aligned. */
static int streams(const tg_rows *out, const char *over)
{
    const el e = (el)tg_el(out->type);
    return out->data != over && tg_streams(out->rows * out->n * el_size(e)) &&
           v_streamable2(e, out->data) && out->stride % V_PAIR == 0;
}

#endif
