/* grpo_loss.asc.h - the kernel of one type; see asc_each_type.h. */

/* The logits of a piece's targets, each copied in alone with zeros behind it; 0 for a token
 * that is left out. */
static inline __aicore__ void ASC_NAME(grpo_hits)(__ubuf__ ASC_T *hit, __gm__ ASC_T *row,
                                                  int64_t stride, __ubuf__ int64_t *target,
                                                  int64_t classes, uint32_t n)
{
    const int64_t size = sizeof(ASC_T), block = 32 / size;
    for (uint32_t i = 0; i < n; i++, row += stride) {
        const int64_t y = target[i];
        if (y >= 0 && y < classes)
            asc_copy_rows_in((uint64_t)(hit + i * block), row + y, 1, size, size, 32);
    }
}

/* Tasks are pieces of sequences. A token is trusted as ce_trusts_lse() has it. */
ASC_KERNEL ASC_NAME(grpo_saved)(ASC_PARAMS(GRPO_SAVED))
{
    const asc_grid grid = asc_grid_of(rows, columns, tile_rows, tile_columns);
    __ubuf__ int64_t *y = ASC_UB(int64_t, target_at, 0);
    __ubuf__ int32_t *index = ASC_UB(int32_t, index_at, 0);
    __ubuf__ int32_t *trust = ASC_UB(int32_t, trusted_at, 0);
    __ubuf__ ASC_T *hit = ASC_UB(ASC_T, hit_at, 0);
    __ubuf__ float *x = ASC_SCRATCH(x), *saved = ASC_SCRATCH(lse), *p = ASC_SCRATCH(p);
    __ubuf__ float *q = ASC_SCRATCH(q), *a = ASC_SCRATCH(a), *b = ASC_SCRATCH(b);
    __ubuf__ float *trusted = ASC_SCRATCH(trusted), *lanes = ASC_SCRATCH(lanes);
    asc_modes_set();
    asc_duplicate(lanes, 0.0f, ASC_LANES);
    for (int64_t task = asc_get_block_idx(); task < grid.tasks; task += asc_get_block_num()) {
        const asc_tile tile = asc_tile_at(grid, task);
        const uint32_t n = (uint32_t)tile.columns;
        const int64_t token = tile.row * columns + tile.column;
        asc_sync();
        ASC_LOAD(int64_t, target_at, 0, target, target_stride, tile);
        ASC_LOAD(float, lse_at, 0, lse, lse_stride, tile);
        asc_duplicate((__ubuf__ float *)hit, 0.0f, n * 8);
        asc_sync();
        ASC_NAME(grpo_hits)
        (hit, logits + tile.row * logits_group + tile.column * logits_stride, logits_stride, y,
         classes, n);
        asc_sync();
#if ASC_16BIT
        ASC_WIDEN(ASC_SCRATCH(hit32), hit, n * 16);
        ASC_THEN();
        asc_datablock_reduce_sum(ASC_SCRATCH(eighth), ASC_SCRATCH(hit32), n * 16);
        ASC_THEN();
        asc_pair_reduce_sum(x, ASC_SCRATCH(eighth), n * 2);
#else
        asc_datablock_reduce_sum(x, hit, n * 8);
#endif
        asc_int642int32(index, y, n);
        ASC_THEN();
        asc_mul_scalar(x, x, asc_f32(scale), n);
        asc_add_scalar(index, index, 1, n);
        ASC_THEN();
        ce_expm1(p, q, a, b, x, saved, n);
        asc_sub(x, x, saved, n); /* logp */
        asc_abs(a, saved, n);
        asc_mul_scalar(q, q, asc_f32(roundings), n);
        ASC_THEN();
        asc_mul(p, p, a, n);
        asc_mul_scalar(b, a, -1.0f, n);
        ASC_THEN();
        asc_sub(trusted, q, p, n);
        asc_add_scalar(b, b, 32.0f, n);
        ASC_THEN();
        grpo_is_positive(trusted, n);
        grpo_is_positive(b, n);
        asc_mul(trusted, trusted, b, n);
        ASC_THEN();
        asc_mul_scalar(a, trusted, -1.0f, n);
        ASC_THEN();
        asc_float2int32_rn(trust, a, n); /* all bits, or none */
        ASC_THEN();
        asc_and((__ubuf__ uint16_t *)x, (__ubuf__ uint16_t *)x, (__ubuf__ uint16_t *)trust, 2 * n);
        ASC_THEN();
        asc_add_scalar(trust, trust, 1, n);
        ASC_THEN();
        asc_mul(index, index, trust, n); /* the target and 1, or 0 */
        ASC_THEN();
        asc_int322float(a, index, n);
        ASC_THEN();
        asc_add_scalar(index, index, TOKENS_LEFT_OUT, n);
        ASC_THEN();
        asc_min_scalar(a, a, 1.0f, n);
        asc_int322int64(y, index, n);
        ASC_THEN();
        ASC_FOLD(asc_add, lanes, a, 1, n, 0);
        asc_sync();
        asc_copy_ub2gm_align(logp + token, x, n * 4);
        asc_copy_ub2gm_align(again + token, y, n * 8);
    }
    terms_leave(counts + asc_get_block_idx() * TERMS_PARTIAL, ASC_SCRATCH(part), lanes);
    asc_modes_clear();
}
