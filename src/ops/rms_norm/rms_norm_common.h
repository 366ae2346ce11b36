/* What forward and backward of rms_norm share, once per ISA level.
 *
 * Whole pairs of vectors are worked on in the lane order of the type (v_load2); f32 arrays of our own (the scale, a row of
 * s, partial sums of dweight) are kept in that order, but for the last columns that fill no pair.
 */
#ifndef TG_RMS_NORM_COMMON_H
#define TG_RMS_NORM_COMMON_H

#include "core/services.h"
#include "simd.h"

/* MIN_CHUNK: elements of work below which another thread does not pay. ROW_BLOCK: rows that backward takes at a time; of more, what
 * differs from row to row no longer fits the registers. */
enum { MIN_CHUNK = 32768, ROW_BLOCK = 2 };

static int64_t rows_per_chunk(int64_t n)
{
    return n > 0 && MIN_CHUNK / n > 1 ? MIN_CHUNK / n : 1;
}

SIMD_INLINE void copy_scale(el e, el weight_type, const void *weight, float offset, float *scale,
                            int64_t n)
{
    const vf add = v_set(offset);
    int64_t j = 0;
    for (; j < v_whole_pairs(n); j += V_PAIR) {
        const vf2 w = v_load2(e, weight_type, weight, j);
        v_put2(scale + j, (vf2){w.a + add, w.b + add});
    }
    for (; j < n; j += VL)
        v_store_n(EL_F32, scale, j, v_tail(n, j),
                  v_load_n(weight_type, weight, j, v_tail(n, j), 0) + add);
}

/* offset + weight as f32, in workspace; *scale is NULL without a weight. */
static tg_status load_scale(tg_ctx *ctx, el e, const tg_tensor *weight, double offset,
                            const float **scale)
{
    *scale = NULL;
    if (!weight)
        return TG_OK;
    const tg_rows w = tg_rows_of(weight);
    float *copy = tg_workspace(ctx, (size_t)w.n * sizeof *copy);
    if (!copy)
        return TG_ENOMEM;
    EL_SPECIALIZE(e, copy_scale, (el)tg_el(w.type), w.data, (float)offset, copy, w.n);
    *scale = copy;
    return TG_OK;
}

SIMD_INLINE vf normalised(el e, int llama, vf x, vf r)
{
    return llama ? v_round(e, x * r) : x * r;
}

SIMD_INLINE vf2 normalised2(el e, int llama, vf2 x, vf r)
{
    const vf2 y = {x.a * r, x.b * r};
    return llama ? v_round2(e, y) : y;
}

/* 1 if streaming stores suit an output: large, not over an input, each row aligned. */
static int streams(const tg_rows *out, const char *over)
{
    const el e = (el)tg_el(out->type);
    return out->data != over && tg_streams(out->rows * out->n * el_size(e)) &&
           v_streamable2(e, out->data) && out->stride % V_PAIR == 0;
}

#endif
