/* src/rows/map.h - operators of elements: results from operands of the same shape, place by place.
 * Compiled once per level.
 *
 * A family gives a SIMD_INLINE map_kernel, from one vector of each operand to one of each result,
 * and a function that runs it over a part of the rows (or calls map_chunk with constants that the
 * kernel gets as `by`):
 *
 *   SIMD_INLINE void kernel(const void *by, const vf *in, vf *out) { out[0] = in[0] * in[1]; }
 *   MAP_CHUNK(chunk, kernel, 2, 1);
 *
 *   return map_run(ctx, 2, 1, (const tg_tensor *[]){args->a, args->b, args->y}, chunk, NULL);
 *
 * An operator of one kernel that needs no constants is MAP_OPERATOR(product_forward, kernel, 2, 1,
 * args->a, args->b, args->y): the function map_product_forward() for its family's table.
 */
#ifndef TG_ROWS_MAP_H
#define TG_ROWS_MAP_H

#include "rows/level.h"
#include "rows/pieces.h"
#include "rows/rows.h"

#define map_run TG_AT_LEVEL(map_run)

enum { MAP_MOST = 4 /* operands, or results */ };

typedef struct map_job {
    el type;
    int stream;
    pieces all;
    operand at[2 * MAP_MOST];         /* operands, then results */
    const void *options;              /* the family's */
    uint8_t neighbours[2 * MAP_MOST]; /* 1: it and the next one alternate in one tensor */
} map_job;

/* by: constants of the loops */
typedef void (*map_kernel)(const void *by, const vf *in, vf *out);

/* at: operands, then results, of a row or a part of one. Elements [begin, end), a
 * vector at a time. */
SIMD_INLINE void map_part(el e, map_kernel kernel, int ins, int outs, const void *by,
                          char *const *at, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i += VL) {
        const int64_t n = v_tail(end, i);
        vf in[MAP_MOST], out[MAP_MOST];
        for (int k = 0; k < ins; k++)
            in[k] = v_load_n(e, at[k], i, n, 0.0f);
        kernel(by, in, out);
        for (int k = 0; k < outs; k++)
            v_store_n(e, at[ins + k], i, n, out[k]);
    }
}

SIMD_INLINE void map_piece(el e, int stream, map_kernel kernel, int ins, int outs, const void *by,
                           char *const *at, int64_t n)
{
    int64_t i = stream ? v_head2(e, at[ins], n) : 0;
    map_part(e, kernel, ins, outs, by, at, 0, i);
    for (; i + V_PAIR <= n; i += V_PAIR) {
        vf a[MAP_MOST], b[MAP_MOST], x[MAP_MOST], y[MAP_MOST];
        for (int k = 0; k < ins; k++) {
            v_ahead2(e, at[k], i);
            const vf2 v = v_load2(e, e, at[k], i);
            a[k] = v.a;
            b[k] = v.b;
        }
        kernel(by, a, x);
        kernel(by, b, y);
        for (int k = 0; k < outs; k++)
            v_write2_clean(e, stream, at[ins + k], i, (vf2){x[k], y[k]});
    }
    map_part(e, kernel, ins, outs, by, at, i, n);
}

/* All results have to reach an aligned address at the same element. */
SIMD_INLINE int map_heads_agree(el e, int outs, char *const *out, int64_t n)
{
    int agree = 1;
    for (int k = 1; k < outs; k++)
        agree &= v_head2(e, out[k], n) == v_head2(e, out[0], n);
    return agree;
}

/* ---- operands that alternate in one tensor ---- */

/* The second of two that alternate, which goes with the first. */
SIMD_INLINE int map_goes_along(int k, int first)
{
    return first >= 0 && k == first + 1;
}

/* in_first, out_first: of the two operands that alternate, and of the two results; -1: none. */
SIMD_INLINE void map_neighbours(el e, map_kernel kernel, int ins, int outs, int in_first,
                                int out_first, const void *by, char *const *at, int64_t n)
{
    vf in[MAP_MOST], out[MAP_MOST] = {{0}};
    for (int64_t i = 0; i < n; i += VL) {
        const int64_t left = v_tail(n, i);
        const int whole = left == VL;
        for (int k = 0; k < ins; k++) {
            if (k == in_first) {
                const vf2 both =
                    whole ? v_load_neighbours(e, at[k], i) : v_load_neighbours_n(e, at[k], i, left);
                in[k] = both.a;
                in[(k + 1) % MAP_MOST] = both.b;
            } else if (!map_goes_along(k, in_first)) {
                in[k] = whole ? v_load(e, at[k], i) : v_load_n(e, at[k], i, left, 0.0f);
            }
        }
        kernel(by, in, out);
        for (int k = 0; k < outs; k++) {
            const vf2 both = {out[k], out[(k + 1) % MAP_MOST]};
            if (map_goes_along(k, out_first))
                continue;
            if (k == out_first && whole)
                v_write_neighbours(e, 0, at[ins + k], i, both);
            else if (k == out_first)
                v_store_neighbours_n(e, at[ins + k], i, left, both);
            else if (whole)
                v_store(e, at[ins + k], i, out[k]);
            else
                v_store_n(e, at[ins + k], i, left, out[k]);
        }
    }
}

/* ---- the items of a job ---- */

/* in_first, out_first: as above. */
SIMD_INLINE void map_items(el e, map_kernel kernel, int ins, int outs, int in_first, int out_first,
                           const void *by, const map_job *j, int64_t begin, int64_t end)
{
    for (int64_t item = begin; item < end; item++) {
        const piece p = piece_at(&j->all, item);
        for (int64_t row = p.row; row < p.end; row++) {
            char *at[2 * MAP_MOST];
            for (int k = 0; k < ins + outs; k++)
                at[k] = row_at(&j->at[k], row) + (p.first << j->neighbours[k]) * el_size(e);
            if (in_first >= 0 || out_first >= 0)
                map_neighbours(e, kernel, ins, outs, in_first, out_first, by, at, p.n);
            else if (j->stream && map_heads_agree(e, outs, at + ins, p.n))
                map_piece(e, 1, kernel, ins, outs, by, at, p.n);
            else
                map_piece(e, 0, kernel, ins, outs, by, at, p.n);
        }
    }
    if (j->stream)
        v_fence();
}

/* The items [begin, end) of a map_job: what the family's range function does. */
SIMD_INLINE void map_chunk_of_neighbours(map_kernel kernel, int ins, int outs, int in_first,
                                         int out_first, const void *by, const map_job *j,
                                         int64_t begin, int64_t end)
{
    EL_SPECIALIZE(j->type, map_items, kernel, ins, outs, in_first, out_first, by, j, begin, end);
}

SIMD_INLINE void map_chunk(map_kernel kernel, int ins, int outs, const void *by, const map_job *j,
                           int64_t begin, int64_t end)
{
    map_chunk_of_neighbours(kernel, ins, outs, -1, -1, by, j, begin, end);
}

/* The range function of a kernel that needs no constants. */
#define MAP_CHUNK(name, kernel, ins, outs)                              \
    static void name(void *arg, int64_t begin, int64_t end, int worker) \
    {                                                                   \
        (void)worker;                                                   \
        map_chunk(kernel, ins, outs, NULL, arg, begin, end);            \
    }                                                                   \
    static void name(void *arg, int64_t begin, int64_t end, int worker)

/* tensors: operands, then results; of one type. A NULL lies in the tensor before it, where the two
 * alternate; another one than these comes first, or last. */
tg_status map_run(tg_ctx *ctx, int ins, int outs, const tg_tensor *const *tensors,
                  tg_range_fn chunk, const void *options);

#define MAP_OPERATOR(op, kernel, ins, outs, ...)                                                   \
    MAP_CHUNK(op##_chunk, kernel, ins, outs);                                                      \
    static tg_status map_##op(tg_ctx *ctx, const tg_##op##_args *args)                             \
    {                                                                                              \
        return map_run(ctx, ins, outs, (const tg_tensor *const[]){__VA_ARGS__}, op##_chunk, NULL); \
    }                                                                                              \
    static tg_status map_##op(tg_ctx *ctx, const tg_##op##_args *args)

#endif
