/* moe_router_sums.asc.c - sums over tokens: the blocks' parts become counts, probabilities and
 * losses; and what their gradients are to backward. A block each. */
#include "moe_router.h"

ASC_KERNEL moe_router_totals_f32(ASC_PARAMS(ROUTER_TOTALS))
{
    const int64_t positions = width - 2 * ASC_LANES, each = experts / groups;
    const int64_t room = groups > 1 ? asc_round_up(each, ROUTER_LIST) : each;
    const uint32_t n = (uint32_t)experts;
    __ubuf__ float *sum = ASC_SCRATCH(sum), *p = ASC_SCRATCH(probs), *lanes = ASC_SCRATCH(lanes),
                   *c = ASC_SCRATCH(scratch), *part = ASC_SCRATCH(part);
    __ubuf__ int32_t *count = ASC_UB(int32_t, count_at, 0);
    asc_modes_set();
    asc_duplicate(sum, 0.0f, (uint32_t)width);
    asc_duplicate(lanes, 0.0f, 2 * ASC_LANES);
    if (totals)
        asc_copy_gm2ub_align(count, totals, n * 4);
    asc_sync();
    for (int64_t b = 0; b < blocks; b += ROUTER_PARTS) {
        const int64_t rows = asc_min_of(ROUTER_PARTS, blocks - b);
        asc_copy_gm2ub_align(part, partials + b * width, (uint32_t)(rows * width * 4));
        asc_sync();
        asc_add_rows(sum, part, rows, width);
        asc_sync();
    }
    asc_short_turns(ASC_UB(int32_t, table_at, 0), c, n, each, 4, (each - room) * 4);
    asc_sync();
    asc_gather(p, sum, ASC_UB(uint32_t, table_at, 0), n);
    asc_repeat_reduce_sum(lanes, sum + positions + ASC_LANES, ASC_LANES);
    asc_repeat_reduce_sum(lanes + 8, sum + positions, ASC_LANES);
    asc_sync();
    const float tokens = lanes[0] > 1.0f ? lanes[0] : 1.0f, by = 1.0f / tokens;
    asc_sync();
    if (probs)
        asc_copy_ub2gm_align(probs, p, n * 4);
    asc_mul_scalar(lanes + 8, lanes + 8, by, 1);
    if (totals) {
        asc_int322int64(ASC_UB(int64_t, counts_at, 0), count, n);
        asc_int322float(c, count, n);
        asc_sync();
        if (counts)
            asc_copy_ub2gm_align((__gm__ uint32_t *)counts, ASC_UB(uint32_t, counts_at, 0), n * 8);
        asc_mul_scalar(c, c, by, n);
        asc_mul_scalar(p, p, by, n);
        ASC_THEN();
        asc_mul(c, c, p, n);
        asc_duplicate(lanes + ASC_LANES, 0.0f, ASC_LANES);
        ASC_THEN();
        ASC_FOLD(asc_add, lanes + ASC_LANES, c, 1, n, n);
        ASC_THEN();
        asc_repeat_reduce_sum(lanes + 16, lanes + ASC_LANES, ASC_LANES);
        ASC_THEN();
        asc_mul_scalar(lanes + 16, lanes + 16, (float)experts, 1);
    }
    asc_sync();
    if (z_loss)
        asc_copy_ub2gm_align(z_loss, lanes + 8, 4);
    if (balance)
        asc_copy_ub2gm_align(balance, lanes + 16, 4);
    asc_sync();
    asc_modes_clear();
}

ASC_KERNEL moe_router_prepare_f32(ASC_PARAMS(ROUTER_PREPARE))
{
    const uint32_t n = (uint32_t)experts;
    __ubuf__ float *factor = ASC_SCRATCH(factor), *c = ASC_SCRATCH(count),
                   *scalars = ASC_SCRATCH(scalars), *lanes = scalars + 16;
    const __ubuf__ int64_t *count = ASC_UB(int64_t, counts_at, 0);
    int64_t slots = 0;
    asc_modes_set();
    asc_duplicate(factor, 0.0f, (uint32_t)width);
    asc_duplicate(scalars, 0.0f, 16);
    asc_sync();
    if (dprobs)
        asc_copy_rows_in((uint64_t)factor, dprobs, 1, experts * 4, 0, experts * 4);
    if (counts)
        asc_copy_gm2ub_align(ASC_UB(uint32_t, counts_at, 0), (__gm__ uint32_t *)counts, n * 8);
    if (dbalance)
        asc_copy_rows_in((uint64_t)scalars, dbalance, 1, 4, 0, 4);
    if (dz_loss)
        asc_copy_rows_in((uint64_t)(scalars + 8), dz_loss, 1, 4, 0, 4);
    asc_sync();
    for (int64_t e = 0; counts && e < experts; e++)
        slots += count[e];
    const float tokens = slots >= top_k ? (float)(slots / top_k) : 1.0f, by = 1.0f / tokens;
    asc_duplicate(lanes, scalars[8], ASC_LANES);
    if (dbalance) {
        asc_int642int32((__ubuf__ int32_t *)c, ASC_UB(int64_t, counts_at, 0), n);
        ASC_THEN();
        asc_int322float(c, (__ubuf__ int32_t *)c, n);
        ASC_THEN();
        asc_mul_scalar(c, c, by, n);
        ASC_THEN();
        asc_mul_scalar(c, c, (float)experts * by, n);
        ASC_THEN();
        asc_mul_scalar(c, c, scalars[0], n);
        ASC_THEN();
        asc_add(factor, factor, c, n);
    }
    ASC_THEN();
    asc_mul_scalar(lanes, lanes, 2.0f * by, ASC_LANES);
    asc_sync();
    asc_copy_ub2gm_align(factors, factor, (uint32_t)width * 4);
    asc_copy_ub2gm_align(factors + width, lanes, ASC_LANES * 4);
    asc_sync();
    asc_modes_clear();
}
