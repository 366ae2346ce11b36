/* grouped_launch.cuh - the host's side of grouped_rows.cuh and grouped_weights.cuh. */
#ifndef CUDA_GROUPED_LAUNCH_CUH
#define CUDA_GROUPED_LAUNCH_CUH

#include "grouped_weights.cuh"

/* Matrices [experts, lines, width] of 16 bits, compact. */
struct expert_matrices {
    const void *data;
    int64_t experts, lines, width;
};

/* Tiles' boxes of such matrices as an operand b. */
template <int LAYOUT> static bool map_matrices(CUtensorMap *map, int type, const expert_matrices &b)
{
    const int64_t row = 2 * b.width, half = b.lines / 2;
    if (LAYOUT == B_HALVES) {
        const int64_t sizes[] = {b.width, 8, 2, b.experts * half / 4 - half / 8};
        const int64_t strides[] = {row, half * row, 8 * row};
        const int box[] = {TILE_K, 8, 2, SHARE / 16};
        return half % 8 == 0 &&
               cuda_make_tensor_map(map, type, (void *)b.data, sizes, strides, box);
    }
    return cuda_batch_tensor_map(map, type, b.data, b.experts, b.lines * row, b.lines, b.width, row,
                                 LAYOUT == B_ACROSS_K ? TILE_K : SHARE);
}

static bool map_out(out_rows *to, int type, void *data, int64_t rows, int64_t width, int64_t stride)
{
    to->data = (char *)data;
    to->stride = 2 * stride;
    to->width = (int)width;
    return !data || cuda_tensor_map(&to->map, type, data, rows, width, 2 * stride, ROWS);
}

/* Rows of an operand, `stride` elements apart: row i is row gather[i] / per of them. */
struct gathered_rows {
    const void *data;
    int64_t rows, width, stride;
    const int64_t *gather;
    int64_t per;
};

template <class T, int LAYOUT, int GATHER, int KIND>
static bool launch_rows(const cuda_call &call, int type, grouped_rows &p, int64_t jobs,
                        const gathered_rows &a, const expert_matrices &b)
{
    static int known;
    p.columns = (int)ceil_div(LAYOUT == B_ACROSS_K ? b.width : b.lines, TILE_N);
    p.steps = (int)ceil_div(a.width, TILE_K);
    p.half = (int)(b.lines / 2);
    p.from = (const char *)a.data;
    p.stride = 2 * a.stride;
    p.bytes = (int)(2 * a.width);
    p.gather = a.gather;
    p.per = (unsigned)a.per;
    if (LAYOUT == B_HALVES)
        p.columns = (int)ceil_div(p.half, TILE_N / 2);
    return call.capability == 90 && map_matrices<LAYOUT>(&p.b, type, b) &&
           (GATHER || cuda_tensor_map(&p.a, type, a.data, a.rows, a.width, 2 * a.stride, ROWS)) &&
           launch_pairs(call, &known, rows_kernel<T, LAYOUT, GATHER, KIND>, jobs * p.columns, p);
}

/* to: [experts, a's columns, b's columns], or TURNED with these exchanged. */
template <class T, int TURNED>
static bool launch_weights(const cuda_call &call, int type, const int64_t *offset,
                           const gathered_rows &a, const gathered_rows &b,
                           const expert_matrices &to)
{
    static int known;
    grouped_weights p = {};
    p.offset = offset;
    p.experts = (int)to.experts;
    p.rows = (int)ceil_div(a.width, PAIR);
    p.columns = (int)ceil_div(b.width, TILE_N);
    p.from = (const char *)a.data;
    p.b_from = (const char *)b.data;
    p.gather = a.gather;
    p.per = (unsigned)a.per;
    p.stride = 2 * a.stride;
    p.b_stride = 2 * b.stride;
    p.bytes = (int)(2 * a.width);
    p.b_bytes = (int)(2 * b.width);
    return call.capability == 90 &&
           cuda_tensor_map(&p.b, type, b.data, b.rows, b.width, 2 * b.stride, TILE_K) &&
           cuda_batch_tensor_map(&p.c, type, to.data, to.experts, 2 * to.lines * to.width, to.lines,
                                 to.width, 2 * to.width, ROWS) &&
           launch_pairs(call, &known, weights_kernel<T, TURNED>,
                        (int64_t)p.experts * p.rows * p.columns, p);
}

#endif
