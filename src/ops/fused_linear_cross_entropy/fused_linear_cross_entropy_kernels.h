/* The loops of fused_linear_cross_entropy that are not a part of its own: bias, its gradient, and
 * the last rounding of gradients that are summed over chunks. Included once per level. */
#ifndef TG_FUSED_LINEAR_CROSS_ENTROPY_KERNELS_H
#define TG_FUSED_LINEAR_CROSS_ENTROPY_KERNELS_H

#include "core/services.h"
#include "simd.h"

/* ---- logits before the product: the bias in every row ---- */

typedef struct bias_job {
    el type;
    const void *bias;
    float *logits; /* [rows, n], compact */
    int64_t n;
} bias_job;

SIMD_INLINE void copy_bias(el e, const bias_job *j, int64_t begin, int64_t end)
{
    for (int64_t row = begin; row < end; row++) {
        float *out = j->logits + row * j->n;
        int64_t i = 0;
        for (; i + VL <= j->n; i += VL)
            v_store(EL_F32, out, i, v_load(e, j->bias, i));
        v_store_n(EL_F32, out, i, j->n - i, v_load_n(e, j->bias, i, j->n - i, 0.0f));
    }
}

static void fill_bias(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const bias_job *j = arg;
    EL_SPECIALIZE(j->type, copy_bias, j, begin, end);
}

/* ---- dbias: sums += the sums of the columns of dlogits ---- */

enum { SUM_COLS = 4 * VL }; /* columns at a time */

typedef struct sum_job {
    el type;
    const void *dlogits; /* [rows, n], compact */
    int64_t rows, n;
    float *sums;
    float scale;
} sum_job;

SIMD_INLINE void add_columns(el e, const sum_job *j, int64_t begin, int64_t end)
{
    for (int64_t strip = begin; strip < end; strip++) {
        vf sum[4] = {0};
        const int64_t first = strip * SUM_COLS, left = j->n - first;
        for (int64_t row = 0; row < j->rows; row++)
            for (int v = 0; v < 4; v++) {
                const int64_t at = row * j->n + first + v * VL, n = left - v * VL;
                if (n >= VL)
                    sum[v] += v_load(e, j->dlogits, at);
                else if (n > 0)
                    sum[v] += v_load_n(e, j->dlogits, at, n, 0.0f);
            }
        for (int v = 0; v < 4; v++) {
            const int64_t at = first + v * VL, n = left - v * VL;
            if (n <= 0)
                break;
            const int64_t lanes = n < VL ? n : VL;
            const vf before = v_load_n(EL_F32, j->sums, at, lanes, 0.0f);
            v_store_n(EL_F32, j->sums, at, lanes, before + sum[v] * v_set(j->scale));
        }
    }
}

static void sum_columns(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const sum_job *j = arg;
    EL_SPECIALIZE(j->type, add_columns, j, begin, end);
}

/* ---- out = sums, or out + sums, rounded once ---- */

typedef struct finish_job {
    el type;
    char *out;
    const float *sums; /* [rows, n], compact */
    int64_t n, stride;
    int accumulate;
} finish_job;

SIMD_INLINE void round_sums(el e, const finish_job *j, int64_t begin, int64_t end)
{
    for (int64_t row = begin; row < end; row++) {
        char *out = j->out + row * j->stride * el_size(e);
        const float *sums = j->sums + row * j->n;
        for (int64_t i = 0; i < j->n; i += VL) {
            const int64_t n = j->n - i < VL ? j->n - i : VL;
            vf x = v_load_n(EL_F32, sums, i, n, 0.0f);
            if (j->accumulate)
                x += v_load_n(e, out, i, n, 0.0f);
            v_store_n(e, out, i, n, x);
        }
    }
}

static void finish_rows(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const finish_job *j = arg;
    EL_SPECIALIZE(j->type, round_sums, j, begin, end);
}

static void finish_sums(tg_ctx *ctx, const tg_tensor *out, const float *sums, int64_t accumulate)
{
    const tg_rows t = tg_rows_of(out);
    finish_job j = {(el)tg_el(t.type), t.data, sums, t.n, t.stride, accumulate != 0};
    tg_parallel_for(ctx, t.rows, 1 + 16384 / (t.n + 1), finish_rows, &j);
}

#endif
