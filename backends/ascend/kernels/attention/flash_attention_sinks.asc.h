/* flash_attention_sinks.asc.h - the gradient of sinks, of one type; see asc_each_type.h. */

/* Of x, queries from `row` of a batch on, those are 0 that see no key. *at: a sequence, none of
 * whose queries but in it and behind it come up again. */
static inline __aicore__ void ASC_NAME(flash_drop_blind)(const flash_problem *f, __ubuf__ float *x,
                                                         int64_t batch, int64_t row, int64_t n,
                                                         int64_t *at)
{
    for (*at = f->ends_q ? *at : batch; *at < f->sequences; ++*at) {
        const flash_sequence s = flash_sequence_at(f, *at), seeing = flash_seeing(s);
        int64_t from = s.query > row ? s.query - row : 0;
        const int64_t to = asc_min_of(seeing.query - row, n);
        for (int64_t end; from < to; from = end) {
            const int64_t lane = from % ASC_LANES;
            end = asc_min_of(from - lane + ASC_LANES, to);
            asc_set_vector_mask(0, (uint64_t)-1 >> (ASC_LANES - (end - from)) << lane);
            asc_duplicate(x + from - lane, 0.0f, 1, 1, 8);
        }
        if (s.query_end - row >= n)
            return;
    }
}

ASC_KERNEL ASC_NAME(flash_attention_sinks)(ASC_PARAMS(FLASH_ATTENTION_SINKS))
{
    flash_problem f;
    f.queries = queries;
    f.keys = all_keys;
    f.lo = lo;
    f.hi = hi;
    FLASH_PROBLEM_PACKED(f);
    __ubuf__ float *sum = ASC_SCRATCH(sum);
    int slot = 0, out = 0;
    asc_dcci_entire_all();
    asc_pipeline_begin();
    for (int64_t head = asc_get_block_idx(); head < heads; head += asc_get_block_num(), out ^= 1) {
        asc_duplicate(sum, queries ? sinks[head] : 0.0f, (uint32_t)tile_floats);
        ASC_THEN();
        asc_max_scalar(sum, sum, -3e38f, (uint32_t)tile_floats);
        ASC_THEN();
        asc_mul_scalar(sum, sum, 0.0f, (uint32_t)tile_floats); /* a NaN stays one */
        ASC_THEN();
        for (int64_t batch = 0; batch < batches; batch++)
            for (int64_t row = 0, at = 0; row < queries; row += tile_floats, slot ^= 1) {
                const int64_t from = (batch * heads + head) * queries + row;
                const int64_t rows = asc_min_of(tile_floats, queries - row);
                const uint32_t n = (uint32_t)rows;
                __ubuf__ float *x = ASC_UB(float, lse_at, slot);
                __ubuf__ float *d = ASC_UB(float, delta_at, slot);
                ASC_MAY_FILL(slot);
                asc_copy_rows_in((uint64_t)x, lse + from, 1, 4 * rows, 4 * rows, 4 * rows);
                asc_copy_rows_in((uint64_t)d, delta + from, 1, 4 * rows, 4 * rows, 4 * rows);
                ASC_HAS_FILLED(slot);
                asc_mul_scalar(x, x, -1.0f, n);
                ASC_THEN();
                asc_min_scalar(x, x, 3e38f, n); /* of sinks of -inf alone, too */
                ASC_THEN();
                asc_add_scalar(x, x, sinks[head], n);
                ASC_THEN();
                asc_exp(x, x, n);
                ASC_NAME(flash_drop_blind)(&f, d, batch, row, rows, &at);
                ASC_THEN();
                asc_mul(x, x, d, n);
                ASC_THEN();
                asc_sub(sum, sum, x, n);
                ASC_THEN();
                ASC_HAS_READ(slot);
            }
        for (int64_t n = tile_floats / 2; n >= ASC_LANES; n /= 2) {
            asc_add(sum, sum, sum + n, (uint32_t)n);
            ASC_THEN();
        }
        ASC_MAY_WRITE(out);
        asc_repeat_reduce_sum(ASC_UB(float, result_at, out), sum, (uint32_t)ASC_LANES);
        ASC_HAS_WRITTEN(out);
        asc_copy_ub2gm_align(dsinks + head, ASC_UB(float, result_at, out), 4);
        ASC_HAS_LEFT(out);
        ASC_THEN();
    }
    asc_pipeline_end();
}
