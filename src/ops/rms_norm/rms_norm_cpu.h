/* What the units of rms_norm on the CPU share: scale and shift of a group of rows, and the backward
 * of a few rows. */
#ifndef TG_RMS_NORM_CPU_H
#define TG_RMS_NORM_CPU_H

#include "rows/columns.h"
#include "rows/next.h"
#include "rows/rows.h"

#define rms_norm_modulated_backward TG_AT_LEVEL(rms_norm_modulated_backward)

tg_status rms_norm_modulated_backward(tg_ctx *ctx, const tg_rms_norm_backward_args *args);

SIMD_INLINE vf normalised(el e, int llama, vf x, vf r)
{
    return llama ? v_round(e, x * r) : x * r;
}

SIMD_INLINE vf2 normalised2(el e, int llama, vf2 x, vf r)
{
    const vf2 y = {x.a * r, x.b * r};
    return llama ? v_round2(e, y) : y;
}

/* A row of the weight, of which whole pairs are kept as pairs; 1 without it. */
SIMD_INLINE vf2 weight_pair(const float *weight, int64_t j)
{
    return weight ? v_get2(weight + j) : (vf2){v_set(1), v_set(1)};
}

SIMD_INLINE vf weight_tail(const float *weight, int64_t j, int64_t n)
{
    return weight ? v_load_n(EL_F32, weight, j, v_tail(n, j), 0) : v_set(1);
}

/* factor = weight (1 + scale), of a row of scale. */
SIMD_INLINE void modulated_weight(el e, el type, const void *scale, const float *weight,
                                  float *factor, int64_t n)
{
    const vf one = v_set(1);
    int64_t j = 0;
    for (; j < v_whole_pairs(n); j += V_PAIR) {
        const vf2 s = v_load2(e, type, scale, j), w = weight_pair(weight, j);
        v_put2(factor + j, (vf2){w.a * (one + s.a), w.b * (one + s.b)});
    }
    for (; j < n; j += VL)
        v_store_n(EL_F32, factor, j, v_tail(n, j),
                  weight_tail(weight, j, n) * (one + v_load_n(type, scale, j, v_tail(n, j), 0)));
}

/* ---- backward of a few rows ---- */

/* ROW_BLOCK: rows that are taken at a time; of more, what differs from row to row no longer fits
 * the registers. WORTH: elements of a chunk of rows with a sum of its own. */
enum { ROW_BLOCK = 2, WORTH = 2 * ROWS_WORTH };

typedef struct backward_rows_of {
    operand dy, ds, x, dx; /* ds: may be missing */
    const float *rstd;
    int64_t n, dy_ahead, ds_ahead, x_ahead; /* ahead: bytes to the rows to ask for */
    int llama;
} backward_rows_of;

/* What belongs to the columns of the rows: what dy is multiplied by, NULL for 1, and the sums over
 * rows; NULL: not wanted. */
typedef struct backward_columns {
    const float *weight;
    float *dweight, *dshift;
} backward_columns;

SIMD_INLINE void add_products(el e, const void *dy, const void *x, const float *weight, int64_t j,
                              vf2 *sum)
{
    const vf2 g = v_load2(e, e, dy, j), a = v_load2(e, e, x, j), w = weight_pair(weight, j);
    sum->a += g.a * w.a * a.a;
    sum->b += g.b * w.b * a.b;
}

/* sum of dy * weight * x */
SIMD_INLINE float product_sum(el e, const void *dy, const void *x, const float *weight, int64_t n)
{
    vf2 sum[2] = {{{0}, {0}}, {{0}, {0}}};
    int64_t j = 0;
    for (; j + 2 * V_PAIR <= n; j += 2 * V_PAIR)
        for (int k = 0; k < 2; k++)
            add_products(e, dy, x, weight, j + k * V_PAIR, &sum[k]);
    for (; j + V_PAIR <= n; j += V_PAIR)
        add_products(e, dy, x, weight, j, &sum[0]);
    for (; j < n; j += VL)
        sum[0].a += v_load_n(e, dy, j, v_tail(n, j), 0) * weight_tail(weight, j, n) *
                    v_load_n(e, x, j, v_tail(n, j), 0);
    return v_sum((sum[0].a + sum[0].b) + (sum[1].a + sum[1].b));
}

/* One vector of dx: r m - x r^3 mean(m x) + ds */
SIMD_INLINE vf gradient(vf dy, vf x, vf weight, float r, float c, vf ds)
{
    return dy * weight * v_set(r) + (ds - x * v_set(c));
}

/* kept: rows of dy in f32, with which dy is left alone; or NULL. */
SIMD_INLINE void gradient_pairs(el e, int stream, int next, const backward_rows_of *rows, int64_t i,
                                int count, const float *r, const float *c, const float *kept,
                                const backward_columns *to)
{
    for (int64_t j = 0; j < v_whole_pairs(rows->n); j += V_PAIR) {
        const vf2 w = weight_pair(to->weight, j), none = {{0}, {0}};
        vf2 sum = to->dweight ? v_get2(to->dweight + j) : none;
        vf2 all = to->dshift ? v_get2(to->dshift + j) : none;
        for (int k = 0; k < count; k++) {
            const char *px = row_at(&rows->x, i + k), *pdy = row_at(&rows->dy, i + k),
                       *pds = rows->ds.data ? row_at(&rows->ds, i + k) : NULL;
            const vf2 x = v_load2(e, e, px, j),
                      dy = kept ? v_get2(kept + k * rows->n + j) : v_load2(e, e, pdy, j),
                      ds = pds ? v_load2(e, e, pds, j) : none,
                      normal = normalised2(e, rows->llama, x, v_set(r[k]));
            sum = (vf2){sum.a + dy.a * normal.a, sum.b + dy.b * normal.b};
            all = (vf2){all.a + dy.a, all.b + dy.b};
            v_write2(e, stream, row_at(&rows->dx, i + k), j,
                     (vf2){gradient(dy.a, x.a, w.a, r[k], c[k], ds.a),
                           gradient(dy.b, x.b, w.b, r[k], c[k], ds.b)});
            if (next) {
                next_pair(e, px + rows->x_ahead, j);
                next_pair(e, pdy + rows->dy_ahead, j);
                if (pds)
                    next_pair(e, pds + rows->ds_ahead, j);
            }
        }
        if (to->dweight)
            v_put2(to->dweight + j, sum);
        if (to->dshift)
            v_put2(to->dshift + j, all);
    }
}

SIMD_INLINE void gradient_tail(el e, const backward_rows_of *rows, int64_t i, int count,
                               const float *r, const float *c, const float *kept,
                               const backward_columns *to)
{
    for (int64_t j = v_whole_pairs(rows->n); j < rows->n; j += VL) {
        const int64_t left = v_tail(rows->n, j);
        const vf w = weight_tail(to->weight, j, rows->n);
        vf sum = to->dweight ? v_load_n(EL_F32, to->dweight, j, left, 0) : v_set(0);
        vf all = to->dshift ? v_load_n(EL_F32, to->dshift, j, left, 0) : v_set(0);
        for (int k = 0; k < count; k++) {
            const char *pds = rows->ds.data ? row_at(&rows->ds, i + k) : NULL;
            const vf x = v_load_n(e, row_at(&rows->x, i + k), j, left, 0),
                     dy = kept ? v_load_n(EL_F32, kept + k * rows->n, j, left, 0)
                               : v_load_n(e, row_at(&rows->dy, i + k), j, left, 0),
                     ds = pds ? v_load_n(e, pds, j, left, 0) : v_set(0);
            sum += dy * normalised(e, rows->llama, x, v_set(r[k]));
            all += dy;
            v_store_n(e, row_at(&rows->dx, i + k), j, left, gradient(dy, x, w, r[k], c[k], ds));
        }
        if (to->dweight)
            v_store_n(EL_F32, to->dweight, j, left, sum);
        if (to->dshift)
            v_store_n(EL_F32, to->dshift, j, left, all);
    }
}

/* A few rows at a time, so that sums over rows are read and written once for all of them. */
SIMD_INLINE void backward_block(el e, int stream, int next, const backward_rows_of *rows, int64_t i,
                                int count, const backward_columns *to)
{
    float r[ROW_BLOCK], c[ROW_BLOCK];
    for (int k = 0; k < count; k++) {
        r[k] = rows->rstd[i + k];
        c[k] =
            product_sum(e, row_at(&rows->dy, i + k), row_at(&rows->x, i + k), to->weight, rows->n);
        c[k] *= r[k] * r[k] * r[k] / (float)rows->n;
    }
    gradient_pairs(e, stream, next, rows, i, count, r, c, NULL, to);
    gradient_tail(e, rows, i, count, r, c, NULL, to);
}

#endif
