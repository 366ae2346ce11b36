/* group_norm_forward.asc.h - the forward kernel of one type; see asc_each_type.h. */

/* A share's numbers to memory. */
static inline __aicore__ void ASC_NAME(group_norm_parts_out)(const group_norm_call *c,
                                                             uint64_t from, int64_t group,
                                                             int64_t share)
{
    for (int64_t i = 0; i < 3; i++)
        asc_copy_ub2gm_align(c->parts + (i * c->all + group) * GROUP_NORM_SHARES + share,
                             (__ubuf__ float *)(from + (uint64_t)(i * 32)), 4);
}

/* The numbers of a share, of its sums. */
static inline __aicore__ void ASC_NAME(group_norm_share_out)(const group_norm_call *c,
                                                             const norm_rows *r,
                                                             const group_norm_share *s,
                                                             int64_t group, int64_t share, int turn)
{
    ASC_MAY_WRITE(turn);
    group_norm_add_up(s, c->numbers);
    group_norm_leave(ASC_UB(float, c->share_at, turn), r, s);
    ASC_HAS_WRITTEN(turn);
    ASC_NAME(group_norm_parts_out)(c, asc_place(c->share_at, turn), group, share);
    ASC_HAS_LEFT(turn);
}

/* Those of all shares of a group, and zeros behind them. */
static inline __aicore__ void ASC_NAME(group_norm_parts_in)(const group_norm_call *c, uint64_t to,
                                                            int64_t group)
{
    asc_copy_rows_in(to, c->parts + group * GROUP_NORM_SHARES, 3, c->shares * 4,
                     c->all * GROUP_NORM_SHARES * 4, 32);
}

static inline __aicore__ void ASC_NAME(group_norm_parameters_in)(const group_norm_call *c, int slot,
                                                                 int64_t channel, int64_t values)
{
    if (c->weight)
        ASC_NAME(asc_columns_in)
    (asc_place(c->weight_at, slot), c->weight, c->weight_f32, channel, values);
    if (c->bias)
        ASC_NAME(asc_columns_in)
    (asc_place(c->bias_at, slot), c->bias, c->bias_f32, channel, values);
}

/* weight rstd, and bias, of a tile's channels as blocks. */
static inline __aicore__ void
ASC_NAME(group_norm_scale)(const group_norm_call *c, const norm_rows *r, int slot, int64_t values)
{
    ASC_NAME(group_norm_blocks)
    (c->scales, c->wide, asc_place(c->weight_at, slot), c->weight != 0, c->weight_f32, 1.0f,
     values);
    group_norm_times(c->scales, c->scales, r->rstds, values * 8);
    ASC_NAME(group_norm_blocks)
    (c->shifts, c->wide, asc_place(c->bias_at, slot), c->bias != 0, c->bias_f32, 0.0f, values);
}

/* y of a tile from `in`, which has been read then. */
static inline __aicore__ void ASC_NAME(group_norm_write)(const group_norm_call *c,
                                                         const norm_rows *r, int slot,
                                                         __ubuf__ float *in, int64_t to,
                                                         const group_norm_tile *t)
{
    __ubuf__ ASC_T *out = ASC_UB(ASC_T, c->y_at, slot);
    ASC_BY_ONE(asc_sub, c->q, in, r->means, t->rows, t->pitch);
    ASC_THEN();
#if ASC_16BIT
    ASC_FMA_BY_ROW(c->step, c->q, c->scales, c->shifts, t->rows, t->pitch);
#else
    ASC_BY_ROW_OF(c->step, asc_mul, out, c->q, c->scales, t->rows, t->pitch);
    ASC_THEN();
    ASC_BY_ROW_OF(c->step, asc_add, out, out, c->shifts, t->rows, t->pitch);
#endif
    ASC_THEN();
    ASC_HAS_READ(slot);
#if ASC_16BIT
    ASC_NARROW(out, c->q, (uint32_t)(t->rows * t->pitch));
#endif
    ASC_HAS_WRITTEN(slot);
    group_norm_out(c->y, asc_place(c->y_at, slot), (int64_t)sizeof(ASC_T), to, c->y_line, t);
}

/* A tile comes in; returns it as f32. fresh: with the parameters of its channels; joins: and with
 * the numbers of all shares of the group. */
static inline __aicore__ __ubuf__ float *
ASC_NAME(group_norm_take)(const group_norm_call *c, int slot, int64_t from, int64_t channel,
                          int64_t group, int fresh, int joins, const group_norm_tile *t)
{
    ASC_MAY_FILL(slot);
    group_norm_in(asc_place(c->x_at, slot), c->x, (int64_t)sizeof(ASC_T), from, c->x_line, t);
    if (fresh)
        ASC_NAME(group_norm_parameters_in)(c, slot, channel + t->channel, t->values);
    if (joins)
        ASC_NAME(group_norm_parts_in)(c, asc_place(c->share_at, slot), group);
    ASC_HAS_FILLED(slot);
#if ASC_16BIT
    ASC_WIDEN(c->x32, ASC_UB(ASC_T, c->x_at, slot), (uint32_t)(t->rows * t->pitch));
    ASC_THEN();
    return c->x32;
#else
    return ASC_UB(float, c->x_at, slot);
#endif
}

/* What copies do not reach of the buffers that they fill. */
static inline __aicore__ void ASC_NAME(group_norm_clear)(const group_norm_call *c, int64_t elements,
                                                         int64_t values, int64_t mean_at,
                                                         int64_t rstd_at)
{
    asc_clear_begin();
    asc_clear(c->x_at, elements * (int64_t)sizeof(ASC_T));
    asc_clear(c->weight_at, asc_round_up(values, 8) * 4);
    asc_clear(c->bias_at, asc_round_up(values, 8) * 4);
    asc_clear(mean_at, 32);
    asc_clear(rstd_at, 32);
}

static inline __aicore__ group_norm_call
ASC_NAME(group_norm_call_of)(ASC_PARAMS(GROUP_NORM_FORWARD))
{
    const group_norm_call c = {(__gm__ char *)x,
                               (__gm__ char *)y,
                               weight,
                               bias,
                               mean,
                               rstd,
                               parts,
                               x_line,
                               y_line,
                               weight_f32,
                               bias_f32,
                               batches * groups,
                               shares,
                               x_at,
                               y_at,
                               weight_at,
                               bias_at,
                               share_at,
                               ASC_SCRATCH(x32),
                               ASC_SCRATCH(q),
                               ASC_SCRATCH(scales),
                               ASC_SCRATCH(shifts),
                               ASC_SCRATCH(wide),
                               ASC_SCRATCH(numbers),
                               lines == 1};
    return c;
}

ASC_KERNEL ASC_NAME(group_norm_forward)(ASC_PARAMS(GROUP_NORM_FORWARD))
{
    const group_norm_shape shape = {width, lines, columns, tile_rows, tile_columns};
    const int64_t tiles = group_norm_tiles(&shape), all = batches * groups;
    __ubuf__ float *numbers = ASC_SCRATCH(numbers);
    const group_norm_call c = ASC_NAME(group_norm_call_of)(ASC_NAMES(GROUP_NORM_FORWARD));
    group_norm_share s = {ASC_SCRATCH(lanes_of_sums),
                          ASC_SCRATCH(lanes_of_tile),
                          ASC_SCRATCH(lanes_of_squares),
                          0,
                          0,
                          0};
    norm_rows r = group_norm_rows_at(numbers);
    int slot = 0, turn = 0;
    (void)rows;
    ASC_NAME(group_norm_clear)
    (&c, tile_rows * asc_round_up(tile_columns, ASC_LANES), tile_rows, mean_at, rstd_at);
    asc_pipeline_begin(); /* V waits for copies that wait for what it has cleared */
    for (int64_t unit = asc_get_block_idx(); unit < all * shares;
         unit += asc_get_block_num(), turn ^= 1) {
        const int64_t group = unit / shares, first = group % groups * width;
        const int64_t from = group_norm_at(group, groups, width * lines, x_batch, x_line);
        const int64_t to = group_norm_at(group, groups, width * lines, y_batch, y_line);
        r.mean = ASC_UB(float, mean_at, turn);
        r.rstd = ASC_UB(float, rstd_at, turn);
        group_norm_enter(&s, tiles, unit % shares, shares);
        for (int64_t i = s.begin; i < s.end && sums; i++, slot ^= 1) {
            const group_norm_tile t = group_norm_tile_at(&shape, i);
            __ubuf__ float *in = ASC_NAME(group_norm_take)(&c, slot, from, first, group, 0, 0, &t);
            group_norm_moments(&r, &s, numbers, in, c.q, &t);
            ASC_HAS_READ(slot);
        }
        for (int64_t i = s.begin; i < s.end && writes; i++, slot ^= 1) {
            const group_norm_tile t = group_norm_tile_at(&shape, i);
            const int enters = i == s.begin, fresh = enters || t.first;
            __ubuf__ float *in =
                ASC_NAME(group_norm_take)(&c, slot, from, first, group, fresh, enters && !sums, &t);
            ASC_MAY_WRITE(slot);
            if (enters && sums) {
                group_norm_add_up(&s, numbers);
                norm_statistics(&r, 0, 1, asc_f32(part), asc_f32(eps));
            } else if (enters) {
                group_norm_join(&r, numbers, ASC_UB(float, share_at, slot), asc_f32(part),
                                asc_f32(eps));
            }
            if (fresh)
                ASC_NAME(group_norm_scale)(&c, &r, slot, t.values);
            ASC_NAME(group_norm_write)(&c, &r, slot, in, to, &t);
            if (mean && i == 0)
                asc_copy_ub2gm_align(mean + group, r.mean, 4);
            if (rstd && i == 0)
                asc_copy_ub2gm_align(rstd + group, r.rstd, 4);
            ASC_HAS_LEFT(slot);
        }
        if (!writes)
            ASC_NAME(group_norm_share_out)(&c, &r, &s, group, unit % shares, turn);
    }
    asc_pipeline_end();
}
