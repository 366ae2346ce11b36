/* group_norm_backward.asc.h - the backward kernel of one type; see asc_each_type.h. */

/* What copies do not reach of the buffers that they fill, and the numbers of a group. */
static inline __aicore__ void ASC_NAME(group_norm_backward_begin)(ASC_PARAMS(GROUP_NORM_BACKWARD))
{
    const int64_t elements = tile_rows * asc_round_up(tile_columns, ASC_LANES);
    asc_clear_begin();
    asc_clear(dy_at, elements * (int64_t)sizeof(ASC_T));
    asc_clear(x_at, elements * (int64_t)sizeof(ASC_T));
    asc_clear(weight_at, asc_round_up(tile_rows, 8) * 4);
    asc_clear(mean_at, 32);
    asc_clear(rstd_at, 32);
    asc_duplicate(ASC_SCRATCH(numbers), 0.0f, GROUP_NORM_MEANS);
}

/* A tile comes in, the first one of a group with the group's numbers. */
GROUP_NORM_STEP(group_norm_backward_in)
{
    const group_norm_tile *t = &s->t;
    const int64_t size = sizeof(ASC_T), channel = s->group % groups * width + t->channel;
    ASC_MAY_FILL(s->slot);
    group_norm_in(asc_place(dy_at, s->slot), (__gm__ char *)dy, size,
                  group_norm_at(s->group, groups, width * lines, dy_batch, dy_line), dy_line, t);
    group_norm_in(asc_place(x_at, s->slot), (__gm__ char *)x, size,
                  group_norm_at(s->group, groups, width * lines, x_batch, x_line), x_line, t);
    if (weight)
        ASC_NAME(asc_columns_in)
    (asc_place(weight_at, s->slot), weight, weight_f32, channel, t->values);
    if (s->enters) {
        asc_copy_rows_in(asc_place(mean_at, s->turn), mean + s->group, 1, 4, 0, 0);
        asc_copy_rows_in(asc_place(rstd_at, s->turn), rstd + s->group, 1, 4, 0, 0);
    }
    ASC_HAS_FILLED(s->slot);
    if (s->enters) {
        asc_spread(s->of.means, ASC_UB(float, mean_at, s->turn), 1);
        asc_spread(s->of.rstds, ASC_UB(float, rstd_at, s->turn), 1);
    }
}

/* m and x - mean of a tile, in s, and the weights of its channels as blocks. */
GROUP_NORM_STEP(group_norm_backward_open)
{
    const group_norm_tile *t = &s->t;
#if ASC_16BIT
    const uint32_t n = (uint32_t)(t->rows * t->pitch);
    s->m = ASC_SCRATCH(dy32);
    s->normal = ASC_SCRATCH(x32);
    ASC_WIDEN(s->m, ASC_UB(ASC_T, dy_at, s->slot), n);
    ASC_WIDEN(s->normal, ASC_UB(ASC_T, x_at, s->slot), n);
#else
    s->m = ASC_UB(float, dy_at, s->slot);
    s->normal = ASC_UB(float, x_at, s->slot);
#endif
    ASC_NAME(group_norm_blocks)
    (ASC_SCRATCH(scales), ASC_SCRATCH(wide), asc_place(weight_at, s->slot), weight != 0, weight_f32,
     1.0f, t->values);
    ASC_BY_ONE(asc_sub, s->normal, s->normal, s->of.means, t->rows, t->pitch);
    ASC_THEN();
}

/* Adds a tile to the sums of dy and of dy (x - mean) of its channels. */
GROUP_NORM_STEP(group_norm_backward_add)
{
    const group_norm_tile *t = &s->t;
    const uint32_t values = (uint32_t)t->values;
    const int step = lines == 1;
    __ubuf__ float *numbers = ASC_SCRATCH(numbers), *piece = numbers + GROUP_NORM_PIECE;
    __ubuf__ float *sums = ASC_SCRATCH(sums), *products = ASC_SCRATCH(products);
    __ubuf__ float *all_sums = ASC_SCRATCH(sums_of), *all_products = ASC_SCRATCH(products_of);
    asc_row_sums of[2] = {
        {t->first && step ? all_sums : sums, s->m, ASC_SCRATCH(a0), ASC_SCRATCH(b0), 1},
        {t->first && step ? all_products : products, ASC_SCRATCH(p), ASC_SCRATCH(a1),
         ASC_SCRATCH(b1), 1}};
    asc_mul(ASC_SCRATCH(p), s->m, s->normal, (uint32_t)(t->rows * t->pitch));
    ASC_THEN();
    asc_sum_rows_of(of, 2, t->rows, t->pitch, t->columns);
    if (!step) { /* lines of one channel */
        group_norm_total(numbers, GROUP_NORM_PIECE, sums, t->rows);
        asc_add_scalar(sums, piece, 0.0f, 1);
        ASC_THEN();
        group_norm_total(numbers, GROUP_NORM_PIECE, products, t->rows);
        asc_add_scalar(products, piece, 0.0f, 1);
        ASC_THEN();
    }
    if (t->first && !step) {
        asc_add_scalar(all_sums, sums, 0.0f, 1);
        asc_add_scalar(all_products, products, 0.0f, 1);
    } else if (!t->first) {
        asc_add(all_sums, all_sums, sums, values);
        asc_add(all_products, all_products, products, values);
    }
    ASC_THEN();
}

/* The sums of a set of channels leave, and are added to the group's. */
GROUP_NORM_STEP(group_norm_backward_leave)
{
    const int64_t values = s->t.values, channel = s->group % groups * width + s->t.channel;
    const int64_t at = s->group / groups * partials_stride + channel;
    const int first = s->t.channel == 0;
    __ubuf__ float *numbers = ASC_SCRATCH(numbers), *wide = ASC_SCRATCH(wide);
    __ubuf__ float *sums = ASC_SCRATCH(sums), *products = ASC_SCRATCH(products);
    __ubuf__ float *dw = ASC_SCRATCH(dweight), *db = ASC_SCRATCH(dbias);
    asc_sync_wait(PIPE_MTE3, PIPE_V, EVENT_ID2);
    asc_add_scalar(db, ASC_SCRATCH(sums_of), 0.0f, (uint32_t)values);
    group_norm_times(dw, ASC_SCRATCH(products_of), s->of.rstds, values);
    asc_mul(sums, ASC_SCRATCH(sums_of), wide, (uint32_t)values);
    ASC_THEN();
    ASC_FENCE(PIPE_V, PIPE_MTE3);
    if (dweights)
        asc_copy_ub2gm_align(dweights + at, dw, (uint32_t)(values * 4));
    if (dbiases)
        asc_copy_ub2gm_align(dbiases + at, db, (uint32_t)(values * 4));
    asc_sync_notify(PIPE_MTE3, PIPE_V, EVENT_ID2);
    asc_mul(products, dw, wide, (uint32_t)values);
    group_norm_add(numbers, GROUP_NORM_SUM, sums, values, first);
    group_norm_add(numbers, GROUP_NORM_SQUARES, products, values, first);
}

/* What dx takes of 1 and of x - mean, of the group's sums. */
GROUP_NORM_STEP(group_norm_backward_factors)
{
    asc_mul_scalar(s->of.sum, s->of.sum, -asc_f32(part), 8);
    asc_mul_scalar(s->of.squares, s->of.squares, -asc_f32(part), 8);
    ASC_THEN();
    asc_mul(s->of.squares, s->of.squares, s->of.rstds, 8);
    asc_spread(ASC_SCRATCH(numbers) + GROUP_NORM_OF_ONE, s->of.sum, 1);
    ASC_THEN();
    asc_spread(ASC_SCRATCH(numbers) + GROUP_NORM_OF_NORMAL, s->of.squares, 1);
}

/* dx of a tile, which leaves. */
GROUP_NORM_STEP(group_norm_backward_write)
{
    const group_norm_tile *t = &s->t;
    const uint32_t n = (uint32_t)(t->rows * t->pitch);
    __ubuf__ float *m = s->m, *normal = s->normal, *rstds = s->of.rstds;
    __ubuf__ float *of_one = ASC_SCRATCH(numbers) + GROUP_NORM_OF_ONE;
    __ubuf__ float *of_normal = ASC_SCRATCH(numbers) + GROUP_NORM_OF_NORMAL;
    __ubuf__ ASC_T *out = ASC_UB(ASC_T, dx_at, s->slot);
    ASC_BY_ROW_OF(lines == 1, asc_mul, m, m, ASC_SCRATCH(scales), t->rows, t->pitch);
    ASC_THEN();
    ASC_BY_ONE(asc_add, m, m, of_one, t->rows, t->pitch);
    ASC_MAY_WRITE(s->slot);
#if ASC_16BIT
    ASC_THEN();
    ASC_BY_ONE(ASC_MUL_ADD, normal, m, of_normal, t->rows, t->pitch);
    ASC_THEN();
    ASC_BY_ONE(asc_mul, normal, normal, rstds, t->rows, t->pitch);
    ASC_THEN();
    ASC_NARROW(out, normal, n);
#else
    ASC_BY_ONE(asc_mul, out, normal, of_normal, t->rows, t->pitch);
    ASC_THEN();
    asc_add(out, m, out, n);
    ASC_THEN();
    ASC_BY_ONE(asc_mul, out, out, rstds, t->rows, t->pitch);
#endif
    ASC_THEN();
    ASC_HAS_READ(s->slot);
    ASC_HAS_WRITTEN(s->slot);
    group_norm_out((__gm__ char *)dx, asc_place(dx_at, s->slot), (int64_t)sizeof(ASC_T),
                   group_norm_at(s->group, groups, width * lines, dx_batch, dx_line), dx_line, t);
    ASC_HAS_LEFT(s->slot);
}

ASC_KERNEL ASC_NAME(group_norm_backward)(ASC_PARAMS(GROUP_NORM_BACKWARD))
{
    const group_norm_shape shape = {width, lines, columns, tile_rows, tile_columns};
    const int64_t tiles = group_norm_tiles(&shape);
    group_norm_step s = {0};
    (void)rows;
    s.of = group_norm_rows_at(ASC_SCRATCH(numbers));
    ASC_NAME(group_norm_backward_begin)(ASC_NAMES(GROUP_NORM_BACKWARD));
    asc_pipeline_begin(); /* V waits for copies that wait for what it has cleared */
    asc_sync_notify(PIPE_MTE3, PIPE_V, EVENT_ID2); /* dw and db have left */
    for (s.group = asc_get_block_idx(); s.group < batches * groups;
         s.group += asc_get_block_num(), s.turn ^= 1)
        for (int64_t i = 0; i < 2 * tiles; i++, s.slot ^= 1) {
            const int writes = i >= tiles;
            s.t = group_norm_tile_at(&shape, writes ? i - tiles : i);
            s.enters = i == 0;
            ASC_NAME(group_norm_backward_in)(&s, ASC_NAMES(GROUP_NORM_BACKWARD));
            ASC_NAME(group_norm_backward_open)(&s, ASC_NAMES(GROUP_NORM_BACKWARD));
            if (i == tiles)
                ASC_NAME(group_norm_backward_factors)(&s, ASC_NAMES(GROUP_NORM_BACKWARD));
            if (writes) {
                ASC_NAME(group_norm_backward_write)(&s, ASC_NAMES(GROUP_NORM_BACKWARD));
                continue;
            }
            ASC_NAME(group_norm_backward_add)(&s, ASC_NAMES(GROUP_NORM_BACKWARD));
            if (s.t.last)
                ASC_NAME(group_norm_backward_leave)(&s, ASC_NAMES(GROUP_NORM_BACKWARD));
            ASC_HAS_READ(s.slot);
        }
    asc_sync_wait(PIPE_MTE3, PIPE_V, EVENT_ID2);
    asc_pipeline_end();
}
