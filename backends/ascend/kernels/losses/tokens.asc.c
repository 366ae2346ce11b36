/* tokens.asc.c - what goes before the rows of selective_log_softmax: a mask that becomes a part of
 * the targets, and positions that have no token. */
#include "terms.h"
#include "tokens.args.h"

/* Masks are compared with 0 as pairs of 32 bits. (target + 1) kept - 1 is the target or -1. */
ASC_KERNEL select_tokens_f32(ASC_PARAMS(SELECT_TOKENS))
{
    const asc_grid grid = asc_grid_of(rows, columns, tile_rows, tile_columns);
    __ubuf__ float *lanes = ASC_SCRATCH(lanes), *pairs = ASC_SCRATCH(pairs);
    __ubuf__ float *kept = ASC_SCRATCH(kept);
    __ubuf__ int64_t *wide = ASC_UB(int64_t, target_at, 0);
    __ubuf__ int32_t *index = ASC_UB(int32_t, index_at, 0), *factor = ASC_UB(int32_t, pairs_at, 0);
    asc_modes_set();
    asc_duplicate(lanes, 0.0f, ASC_LANES);
    for (int64_t task = asc_get_block_idx(); task < grid.tasks; task += asc_get_block_num()) {
        const asc_tile tile = asc_tile_at(grid, task);
        const uint32_t n = (uint32_t)tile.columns;
        asc_sync(); /* few tokens: nothing is gained by overlap */
        if (target)
            ASC_LOAD(int64_t, target_at, 0, target, target_stride, tile);
        ASC_LOAD(int64_t, mask_at, 0, mask, mask_stride, tile);
        asc_sync();
        asc_int322float(pairs, ASC_UB(int32_t, mask_at, 0), 2 * n);
        if (target)
            asc_int642int32(index, wide, n);
        else
            asc_duplicate(index, 0, n);
        ASC_THEN();
        asc_abs(pairs, pairs, 2 * n);
        asc_add_scalar(index, index, 1, n);
        ASC_THEN();
        asc_pair_reduce_sum(kept, pairs, 2 * n);
        ASC_THEN();
        asc_min_scalar(kept, kept, 1.0f, n);
        ASC_THEN();
        asc_float2int32_rn(factor, kept, n);
        ASC_FOLD(asc_add, lanes, kept, 1, n, 0);
        ASC_THEN();
        asc_mul(index, index, factor, n);
        ASC_THEN();
        asc_add_scalar(index, index, TOKENS_LEFT_OUT, n);
        ASC_THEN();
        asc_int322int64(wide, index, n);
        asc_sync();
        asc_copy_ub2gm_align(selected + tile.row * columns + tile.column, wide, n * 8);
    }
    terms_leave(counts + asc_get_block_idx() * TERMS_PARTIAL, ASC_SCRATCH(part), lanes);
    asc_modes_clear();
}

#define ASC_TEMPLATE "losses/tokens.asc.h"
#include "shared/asc_each_type.h"
