/* src/core/chunks.h - for compositions that run over their rows in chunks (core/parts.h): how many rows a chunk has, and what
 * the chunks leave. */
#ifndef TG_CORE_CHUNKS_H
#define TG_CORE_CHUNKS_H

#include "core/services.h"

typedef struct tg_chunks {
    int64_t rows;  /* of a chunk; the last may have fewer */
    int64_t count; /* one even without rows: outputs may have to become zero */
} tg_chunks;

/* Equal parts of the fewest chunks that fit so many bytes; a row at least. */
static inline tg_chunks tg_cut(int64_t rows, int64_t row_bytes, int64_t bytes)
{
    const int64_t most = bytes / (row_bytes ? row_bytes : 1);
    const int64_t count = most < 1 ? rows : (rows + most - 1) / most;
    const int64_t each = count ? (rows + count - 1) / count : 1;
    return (tg_chunks){each, count ? (rows + each - 1) / each : 1};
}

/* Bytes of a part of a workspace, so that the next part begins a cache line. */
static inline int64_t tg_whole_lines(int64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* to = the sum of `count` f32 tensors of its shape that follow each other where it lies, with accumulate added to what it holds.
 * Nothing if one of both is NULL. */
static inline tg_status tg_add_up(tg_ctx *ctx, const float *parts, int64_t count, tg_tensor *to,
                                  int64_t accumulate)
{
    int64_t shape[TG_MAX_NDIM];
    if (!parts || !to)
        return TG_OK;
    shape[0] = count;
    for (int i = 0; i < to->ndim; i++)
        shape[i + 1] = to->shape[i];
    tg_tensor x = tg_tensor_of((void *)parts, TG_F32, to->ndim + 1, shape);
    x.device = to->device;
    return tg_sum_rows_forward(
        ctx, &(tg_sum_rows_forward_args){.x = &x, .y = to, .accumulate = accumulate});
}

#endif
