/* rms_norm_pieces.h - what the kernels of rms_norm with a gate or a scale share: sums of rows in
 * pieces, sums over rows, rows that belong to a group. */
#ifndef RMS_NORM_PIECES_H
#define RMS_NORM_PIECES_H

#include "rms_norm_pieces.args.h"
#include "shared/asc_row_tile.h"

/* sums = those of the rows of `terms`, or of their pieces so far; part: a piece's. */
static inline __aicore__ void rms_norm_add_part(const asc_piece *p, __ubuf__ float *sums,
                                                __ubuf__ float *part, __ubuf__ float *terms,
                                                __ubuf__ float *eighth, __ubuf__ float *rest)
{
    asc_sum_rows(p->first ? sums : part, terms, p->rows, p->pitch, p->whole ? p->pitch : p->columns,
                 eighth, rest);
    if (p->first)
        return;
    asc_add(sums, sums, part, (uint32_t)p->rows);
    ASC_THEN();
}

/* The address of a row of elements of 4 bytes, or of `size`. */
static inline __aicore__ __gm__ char *rms_norm_row_of(__gm__ void *t, int64_t row, int64_t stride,
                                                      int64_t is_f32, int64_t size)
{
    return (__gm__ char *)t + row * stride * (is_f32 ? 4 : size);
}

/* ---- sums over rows, `lines` of them ---- */

/* Of two lines: where those are that this block has of a group. */
static inline __aicore__ __gm__ float *rms_norm_group_sums(const asc_piece *p, __gm__ float *sums,
                                                           int64_t stride)
{
    return sums + (p->group + asc_get_block_idx()) * 2 * stride;
}

/* What has been added up of whole rows goes to memory, and is 0 then. */
static inline __aicore__ void rms_norm_leave_sums(__gm__ float *to, int64_t stride,
                                                  __ubuf__ float *products, __ubuf__ float *shifts,
                                                  int64_t columns, int64_t pitch)
{
    ASC_FENCE(PIPE_V, PIPE_MTE3);
    asc_copy_ub2gm_align(to, products, (uint32_t)(columns * 4));
    asc_copy_ub2gm_align(to + stride, shifts, (uint32_t)(columns * 4));
    ASC_FENCE(PIPE_MTE3, PIPE_V);
    asc_duplicate(products, 0.0f, (uint32_t)pitch);
    asc_duplicate(shifts, 0.0f, (uint32_t)pitch);
    ASC_THEN();
}

/* Those of a piece, which lie in memory: a copy in, but for the first rows of a group. */
static inline __aicore__ void rms_norm_sums_in(const asc_piece *p, uint64_t in, __gm__ float *sums,
                                               int64_t lines, int64_t stride, int64_t pitch)
{
    if (p->begins)
        return;
    if (p->first) /* what the rows before have left is there */
        ASC_FENCE(PIPE_MTE3, PIPE_MTE2);
    asc_copy_rows_in(in, sums + p->column, lines, p->columns * 4, stride * 4, pitch * 4);
}

/* out: what the piece is added to. */
static inline __aicore__ void rms_norm_sums_begin(const asc_piece *p, __ubuf__ float *out,
                                                  __ubuf__ float *in, int64_t lines, int64_t pitch)
{
    if (p->begins)
        asc_duplicate(out, 0.0f, (uint32_t)(lines * pitch));
    else
        asc_mul_scalar(out, in, 1.0f, (uint32_t)(lines * pitch));
    ASC_THEN();
}

static inline __aicore__ void rms_norm_sums_out(const asc_piece *p, __gm__ float *sums,
                                                uint64_t out, int64_t lines, int64_t stride,
                                                int64_t pitch)
{
    asc_copy_rows_out(sums + p->column, out, lines, p->columns * 4, stride * 4, pitch * 4);
}

#endif
