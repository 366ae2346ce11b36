/* group_norm.asc.h - the kernels of one type; see asc_each_type.h. */
#include "shared/asc_columns.asc.h"

/* A parameter of the channels of a tile as f32, or what stands for it; as blocks. wide: scratch. */
static inline __aicore__ void ASC_NAME(group_norm_blocks)(__ubuf__ float *blocks,
                                                          __ubuf__ float *wide, uint64_t staged,
                                                          int there, int64_t is_f32, float instead,
                                                          int64_t values)
{
    const int64_t n = asc_round_up(values, 8);
    if (there)
        ASC_NAME(asc_columns_widen)(wide, staged, is_f32, 0.0f, n);
    else
        asc_duplicate(wide, instead, (uint32_t)n);
    ASC_THEN();
    asc_spread(blocks, wide, values);
    ASC_THEN();
}

ASC_KERNEL ASC_NAME(group_norm_forward)(ASC_PARAMS(GROUP_NORM_FORWARD))
{
    const group_norm_shape shape = {width, lines, columns, tile_rows, tile_columns};
    const int64_t size = sizeof(ASC_T), tiles = group_norm_tiles(&shape);
    const int step = lines == 1;
    __ubuf__ float *numbers = ASC_SCRATCH(numbers), *q = ASC_SCRATCH(q);
    __ubuf__ float *scales = ASC_SCRATCH(scales), *shifts = ASC_SCRATCH(shifts);
    norm_rows r = {0};
    int slot = 0, turn = 0;
    (void)rows;
    r.sum = numbers + GROUP_NORM_SUM;
    r.squares = numbers + GROUP_NORM_SQUARES;
    r.piece = numbers + GROUP_NORM_PIECE;
    r.means = numbers + GROUP_NORM_MEANS;
    r.rstds = numbers + GROUP_NORM_RSTDS;
    r.eighth = ASC_SCRATCH(eighth);
    r.rest = ASC_SCRATCH(rest);
    asc_clear_begin();
    asc_clear(x_at, tile_rows * asc_round_up(tile_columns, ASC_LANES) * size);
    asc_clear(weight_at, asc_round_up(tile_rows, 8) * 4);
    asc_clear(bias_at, asc_round_up(tile_rows, 8) * 4);
    asc_clear(mean_at, 32);
    asc_clear(rstd_at, 32);
    asc_pipeline_begin(); /* V waits for copies that wait for what it has cleared */
    for (int64_t group = asc_get_block_idx(); group < batches * groups;
         group += asc_get_block_num(), turn ^= 1) {
        const int64_t channels = group % groups * width, batch = group / groups;
        const int64_t from = batch * x_batch + channels * lines * x_line;
        const int64_t to = batch * y_batch + channels * lines * y_line;
        r.mean = ASC_UB(float, mean_at, turn);
        r.rstd = ASC_UB(float, rstd_at, turn);
        for (int writes = 0; writes <= 1; writes++)
            for (int64_t i = 0; i < tiles; i++, slot ^= 1) {
                const group_norm_tile t = group_norm_tile_at(&shape, i);
                const int64_t channel = channels + t.channel;
                __ubuf__ ASC_T *out = ASC_UB(ASC_T, y_at, slot);
                ASC_MAY_FILL(slot);
                group_norm_in(asc_place(x_at, slot), (__gm__ char *)x, size, from, x_line, &t);
                if (weight && writes)
                    ASC_NAME(asc_columns_in)
                (asc_place(weight_at, slot), weight, weight_f32, channel, t.values);
                if (bias && writes)
                    ASC_NAME(asc_columns_in)
                (asc_place(bias_at, slot), bias, bias_f32, channel, t.values);
                ASC_HAS_FILLED(slot);
                if (writes)
                    ASC_MAY_WRITE(slot);
#if ASC_16BIT
                __ubuf__ float *in = ASC_SCRATCH(x32);
                ASC_WIDEN(in, ASC_UB(ASC_T, x_at, slot), (uint32_t)(t.rows * t.pitch));
                ASC_THEN();
#else
                __ubuf__ float *in = ASC_UB(float, x_at, slot);
#endif
                if (!writes) {
                    group_norm_moments(&r, numbers, in, q, ASC_SCRATCH(values), i == 0, &t);
                    ASC_HAS_READ(slot);
                    continue;
                }
                if (i == 0)
                    norm_statistics(&r, 0, 1, asc_f32(part), asc_f32(eps));
                ASC_NAME(group_norm_blocks)
                (scales, ASC_SCRATCH(wide), asc_place(weight_at, slot), weight != 0, weight_f32,
                 1.0f, t.values);
                group_norm_times(scales, scales, r.rstds, t.values * 8);
                ASC_NAME(group_norm_blocks)
                (shifts, ASC_SCRATCH(wide), asc_place(bias_at, slot), bias != 0, bias_f32, 0.0f,
                 t.values);
                ASC_BY_ONE(asc_sub, q, in, r.means, t.rows, t.pitch);
                ASC_THEN();
#if ASC_16BIT
                ASC_FMA_BY_ROW(step, q, scales, shifts, t.rows, t.pitch);
#else
                ASC_BY_ROW_OF(step, asc_mul, out, q, scales, t.rows, t.pitch);
                ASC_THEN();
                ASC_BY_ROW_OF(step, asc_add, out, out, shifts, t.rows, t.pitch);
#endif
                ASC_THEN();
                ASC_HAS_READ(slot);
#if ASC_16BIT
                ASC_NARROW(out, q, (uint32_t)(t.rows * t.pitch));
#endif
                ASC_HAS_WRITTEN(slot);
                group_norm_out((__gm__ char *)y, asc_place(y_at, slot), size, to, y_line, &t);
                if (mean && i == 0)
                    asc_copy_ub2gm_align(mean + group, r.mean, 4);
                if (rstd && i == 0)
                    asc_copy_ub2gm_align(rstd + group, r.rstd, 4);
                ASC_HAS_LEFT(slot);
            }
    }
    asc_pipeline_end();
}

#include "group_norm_backward.asc.h"
