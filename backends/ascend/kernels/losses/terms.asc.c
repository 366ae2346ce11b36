/* terms.asc.c - around the losses that are computed term by term: rows are counted before, losses
 * are added up behind. Each block leaves its part, and the parts are added in their order: the bits
 * do not depend on which block was done first. */
#include "terms.h"

ASC_KERNEL count_labels_f32(ASC_PARAMS(COUNT_LABELS))
{
    const asc_grid grid = asc_grid_of(rows, columns, tile_rows, tile_columns);
    __ubuf__ float *lanes = ASC_SCRATCH(lanes), *kept = ASC_SCRATCH(kept);
    __ubuf__ int32_t *ignored = ASC_UB(int32_t, ignored_at, 0);
    asc_modes_set();
    asc_duplicate(lanes, 0.0f, ASC_LANES);
    terms_pattern(ignored, ignore_index);
    for (int64_t task = asc_get_block_idx(); task < grid.tasks; task += asc_get_block_num()) {
        const asc_tile tile = asc_tile_at(grid, task);
        const uint32_t n = (uint32_t)tile.columns;
        asc_sync(); /* few labels: nothing is gained by overlap */
        asc_copy_rows_in(asc_place(labels_at, 0), labels + tile.column, 1, n * 8, n * 8,
                         asc_round_up(n * 8, 32));
        asc_sync();
        terms_kept(kept, ASC_UB(int64_t, labels_at, 0), ASC_SCRATCH(pairs), ignored, n);
        ASC_FOLD(asc_add, lanes, kept, 1, n, 0);
    }
    terms_leave(counts + asc_get_block_idx() * TERMS_PARTIAL, ASC_SCRATCH(part), lanes);
    asc_modes_clear();
}

ASC_KERNEL terms_total_f32(ASC_PARAMS(TERMS_TOTAL))
{
    __ubuf__ float *lanes = ASC_SCRATCH(lanes), *part = ASC_SCRATCH(part);
    const uint32_t n = (uint32_t)(blocks * TERMS_PARTIAL);
    (void)rows;
    (void)columns;
    (void)tile_rows;
    (void)tile_columns;
    asc_modes_set();
    const float share = terms_share(counts, ASC_SCRATCH(counted), count_blocks);
    asc_duplicate(lanes, 0.0f, ASC_LANES);
    if (n > 0) {
        asc_copy_gm2ub_align(ASC_SCRATCH(sums), sums, n * 4);
        asc_sync();
        ASC_FOLD(asc_add, lanes, ASC_SCRATCH(sums), 1, n, 0);
    }
    ASC_THEN();
    asc_repeat_reduce_sum(part, lanes, ASC_LANES);
    ASC_THEN();
    asc_mul_scalar(part, part, asc_f32(scale) * share, 1);
    ASC_FENCE(PIPE_V, PIPE_MTE3);
    asc_copy_ub2gm_align(result, part, 4);
    asc_modes_clear();
}
