/* rms_norm_groups.h - groups of rows, each with a scale of its own: how blocks share them. */
#ifndef RMS_NORM_GROUPS_H
#define RMS_NORM_GROUPS_H

#include "shared/asc_row_tile.h"

/* Tiles of one group's rows follow each other; a block has neighbouring ones. */
typedef struct rms_norm_groups {
    asc_share share; /* of the tiles */
    int64_t height, tile_rows, per_group, columns;
} rms_norm_groups;

static inline __aicore__ rms_norm_groups rms_norm_groups_of(int64_t rows, int64_t height,
                                                            int64_t tile_rows, int64_t columns)
{
    rms_norm_groups g;
    g.height = height;
    g.tile_rows = tile_rows;
    g.per_group = (height + tile_rows - 1) / tile_rows;
    g.columns = columns;
    g.share = asc_share_of(rows / height * g.per_group);
    return g;
}

static inline __aicore__ asc_tile rms_norm_group_tile(const rms_norm_groups *g, int64_t task)
{
    const int64_t at = task % g->per_group * g->tile_rows;
    asc_tile tile;
    tile.row = task / g->per_group * g->height + at;
    tile.rows = asc_min_of(g->tile_rows, g->height - at);
    tile.column = 0;
    tile.columns = g->columns;
    return tile;
}

/* The address of a row of elements of 4 bytes, or of `size`. */
static inline __aicore__ __gm__ char *rms_norm_row_of(__gm__ void *t, int64_t row, int64_t stride,
                                                      int64_t is_f32, int64_t size)
{
    return (__gm__ char *)t + row * stride * (is_f32 ? 4 : size);
}

/* What has been added up of a group, two rows of columns, goes to memory, and is 0 then. */
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

#endif
