/* flash_attention_backward_vector.asc.h - the backward's vector cores, of one type: exponentials of
 * scores, and the scores' gradients. */

/* Its places in UB; see flash_attention_backward.args.h. slot: the copies that are next. */
#define FLASH_UB ASC_NAME(flash_ub)
typedef struct FLASH_UB {
    int64_t s_at, ds_at, p_at, dp_at, lse_at, delta_at, values_at, shift_at, less_at, factor_at;
    int64_t slope_at, spare_at, bias_at;
    int slot;
    flash_drawing drawing;
} FLASH_UB;

/* A block's two slots, and two numbers a query; at the first row that the core has of a tile. */
typedef struct ASC_NAME(flash_rows) {
    __gm__ float *s, *ds, *lse, *delta;
    __gm__ ASC_T *p, *dp;
    int64_t rows, n, width, batch, query, head, key;
    flash_band band;
} ASC_NAME(flash_rows);

static inline __aicore__ void ASC_NAME(flash_bring)(const flash_problem *f, const FLASH_UB *u,
                                                    int slot, const ASC_NAME(flash_rows) * r,
                                                    int64_t row)
{
    const int64_t rows = asc_min_of(f->group, r->rows - row);
    ASC_MAY_FILL(slot);
    if (f->d)
        flash_scores_in(f, ASC_UB(float, u->s_at, slot), r->s + row * f->tile, rows, r->n);
    if (f->bias)
        flash_bias_in(f, asc_place(u->bias_at, slot), r->batch, r->query, r->head, r->key, row,
                      rows, r->n);
    flash_scores_in(f, ASC_UB(float, u->ds_at, slot), r->ds + row * f->tile, rows, r->n);
    flash_values_in(asc_place(u->lse_at, slot), r->lse + row * f->dilation, rows, f->dilation);
    flash_values_in(asc_place(u->delta_at, slot), r->delta + row, rows, 1);
    ASC_NOTIFY(PIPE_MTE2, PIPE_V, slot);
}

/* Of some rows, p = exp(scale s - lse) and p (dp - delta). A query that sees no key has an lse of
 * -inf: it stays finite. */
static inline __aicore__ void ASC_NAME(flash_weigh)(const flash_problem *f, FLASH_UB *u,
                                                    const ASC_NAME(flash_rows) * r, int64_t row)
{
    const int64_t rows = asc_min_of(f->group, r->rows - row), width = r->width;
    __ubuf__ uint16_t *const kept =
        f->least ? flash_kept(f, &u->drawing, row, rows, r->rows, width) : 0;
    flash_band band = r->band, all = band;
    band.from += row;
    band.to += row;
    all.from = -rows;
    all.to = r->n;
    const uint32_t n = (uint32_t)(rows * width), values = (uint32_t)asc_round_up(rows, 8);
    __ubuf__ float *s = ASC_UB(float, u->s_at, u->slot), *ds = ASC_UB(float, u->ds_at, u->slot);
    __ubuf__ ASC_T *p = ASC_UB(ASC_T, u->p_at, u->slot), *dp = ASC_UB(ASC_T, u->dp_at, u->slot);
    __ubuf__ float *shift = ASC_UB(float, u->shift_at, 0), *less = ASC_UB(float, u->less_at, 0);
    __ubuf__ float *slope = ASC_UB(float, u->slope_at, 0);
    __ubuf__ float *delta = ASC_UB(float, u->delta_at, u->slot);
    if (f->d == 0) {
        asc_duplicate(s, 0.0f, n);
        ASC_THEN();
    }
    if (flash_changes(f)) {
        const flash_change c = {slope, ASC_UB(float, u->spare_at, 0), 0,
                                asc_place(u->bias_at, u->slot), 1};
        flash_change_rows(f, &c, s, rows, width, r->n);
    }
    FLASH_ALL_LANES();
    __ubuf__ float *lse = flash_values(ASC_UB(float, u->values_at, 0),
                                       ASC_UB(float, u->lse_at, u->slot), rows, f->dilation);
    if (flash_is_masked(band, rows, r->n, width))
        flash_mask(s, rows, width, band, r->n, f->negative ? -FLASH_NOTHING : FLASH_NOTHING);
    if (r->n < width)
        flash_mask(ds, rows, width, all, r->n, 0.0f);
    asc_mul_scalar(lse, lse, -1.0f, values);
    ASC_THEN();
    asc_min_scalar(lse, lse, 3e38f, values);
    if (f->negative)
        asc_mul_scalar(s, s, -1.0f, n);
    ASC_THEN();
    asc_spread(shift, lse, rows);
    if (f->least)
        asc_mul_scalar(delta, delta, flash_share_kept(f), values);
    ASC_THEN();
    asc_spread(less, delta, rows);
    ASC_THEN();
    FLASH_ALL_LANES();
    __ubuf__ float *const ones = kept ? flash_kept_ones(&u->drawing, kept, n) : 0;
    if (ones) {
        asc_mul(ds, ds, ones, n);
        ASC_THEN();
        FLASH_ALL_LANES();
    }
    flash_shift(s, ASC_UB(float, u->factor_at, 0), shift, rows, width);
    for (int64_t c = 0; c < width; c += ASC_LANES)
        asc_sub(ds + c, ds + c, less, (uint8_t)rows, 1, 1, 0, (uint8_t)(width / 8),
                (uint8_t)(width / 8), 1);
    ASC_MAY_WRITE(u->slot);
    ASC_THEN();
    if (f->softcap != 0.0f) {
        asc_mul(ds, ds, slope, n);
        ASC_THEN();
    }
#if ASC_16BIT
    asc_exp(s, s, n);
    ASC_THEN();
    ASC_NARROW(p, s, n);
    asc_mul(ds, ds, s, n);
    ASC_THEN();
    if (kept)
        asc_and((__ubuf__ uint16_t *)p, (__ubuf__ uint16_t *)p, kept, n);
    ASC_NARROW(dp, ds, n);
#else
    asc_exp(p, s, n);
    ASC_THEN();
    asc_mul(dp, ds, p, n);
    if (ones) {
        ASC_THEN();
        asc_mul(p, p, ones, n);
    }
#endif
    ASC_HAS_READ(u->slot);
    ASC_HAS_WRITTEN(u->slot);
}

static inline __aicore__ void ASC_NAME(flash_send)(const flash_problem *f, const FLASH_UB *u,
                                                   const ASC_NAME(flash_rows) * r, int64_t row)
{
    const int64_t rows = asc_min_of(f->group, r->rows - row), size = (int64_t)sizeof(ASC_T);
    asc_copy_rows_out(r->p + row * f->tile, asc_place(u->p_at, u->slot), rows, r->n * size,
                      f->tile * size, r->width * size);
    asc_copy_rows_out(r->dp + row * f->tile, asc_place(u->dp_at, u->slot), rows, r->n * size,
                      f->tile * size, r->width * size);
    ASC_HAS_LEFT(u->slot);
}

/* This core's rows of a tile of queries. */
static inline __aicore__ void ASC_NAME(flash_weigh_tile)(const flash_problem *f, FLASH_UB *u,
                                                         const ASC_NAME(flash_rows) * r)
{
    if (r->rows > 0)
        ASC_NAME(flash_bring)(f, u, u->slot, r, 0);
    for (int64_t row = 0; row < r->rows; row += f->group) {
        if (row + f->group < r->rows)
            ASC_NAME(flash_bring)(f, u, 1 - u->slot, r, row + f->group);
        ASC_WAIT(PIPE_MTE2, PIPE_V, u->slot);
        ASC_NAME(flash_weigh)(f, u, r, row);
        ASC_NAME(flash_send)(f, u, r, row);
        u->slot ^= 1;
    }
}

static inline __aicore__ ASC_NAME(flash_rows)
    ASC_NAME(flash_rows_at)(const flash_problem *f, const FLASH_WORK *w, const flash_step *s,
                            int step, __gm__ float *lse, __gm__ float *delta)
{
    ASC_NAME(flash_rows) r;
    const flash_columns seen = flash_tile_keys(f, s, s->tile);
    const int64_t rows = flash_tile_rows(f, s, s->tile), upper = (rows + 1) / 2;
    const int64_t first = asc_get_sub_block_id() ? upper : 0,
                  in_unit = s->tile * 2 * f->half + first;
    r.s = w->s[step % 2] + first * f->tile + seen.first;
    r.ds = w->ds[step % 2] + first * f->tile + seen.first;
    r.p = w->p[s->number % 2] + in_unit * f->tile + seen.first;
    r.dp = w->dp[s->number % 2] + in_unit * f->tile + seen.first;
    r.lse = lse + flash_lse_at(f, s->batch, s->row + in_unit, s->head);
    r.delta = delta + (s->batch * f->heads + s->head) * f->queries + s->row + in_unit;
    r.n = seen.end - seen.first;
    r.rows = r.n == 0 ? 0 : first ? rows - upper : upper;
    r.width = asc_round_up(r.n, ASC_LANES);
    r.batch = s->batch;
    r.query = s->row + in_unit;
    r.head = s->head;
    r.key = s->key + seen.first;
    r.band = flash_band_of(f, &s->of.of, s->row, in_unit, s->key + seen.first);
    return r;
}

static inline __aicore__ void ASC_NAME(flash_draw_tile)(const flash_problem *f, flash_drawing *d,
                                                        const flash_step *s,
                                                        const ASC_NAME(flash_rows) * r)
{
    const int64_t number = s->of.sequence;
    const flash_sequence in = flash_sequence_at(f, number); /* its queries that see none, too */
    if (r->rows <= 0)
        return;
    flash_draw_rows(f, d, number * f->heads + r->head, r->query - in.query, 0, r->rows);
    flash_draw_columns(f, d, r->key - in.key, r->n);
}

static inline __aicore__ void ASC_NAME(flash_weigh_all)(const flash_problem *f,
                                                        const flash_units *units, FLASH_UB *u,
                                                        const FLASH_WORK *w, __gm__ float *lse,
                                                        __gm__ float *delta)
{
    flash_step here = flash_start(f, units);
    for (int i = 0; i < 2 && f->bias; i++)
        asc_duplicate(ASC_UB(float, u->bias_at, i), 0.0f, (uint32_t)(f->group * f->tile));
    asc_pipeline_begin();
    asc_duplicate(ASC_UB(float, u->factor_at, 0), f->scale, 8);
    asc_duplicate(ASC_UB(float, u->values_at, 0), 0.0f, (uint32_t)asc_round_up(f->group, 8));
    ASC_THEN();
    if (f->least)
        flash_draw_begin(f, &u->drawing);
    for (int step = 0; here.unit < here.end; step++) {
        if (here.tile == 0 && here.number >= 2)
            asc_sync_block_wait(PIPE_S, FLASH_SUMMED);
        asc_sync_block_wait(PIPE_S, FLASH_SCORED);
        const ASC_NAME(flash_rows) r = ASC_NAME(flash_rows_at)(f, w, &here, step, lse, delta);
        if (f->least)
            ASC_NAME(flash_draw_tile)(f, &u->drawing, &here, &r);
        ASC_NAME(flash_weigh_tile)(f, u, &r);
        asc_sync_block_arrive(PIPE_MTE3, FLASH_WEIGHED);
        flash_next(f, &here);
    }
    for (int64_t left = asc_min_of(here.number, 2); left > 0; left--)
        asc_sync_block_wait(PIPE_S, FLASH_SUMMED);
    asc_pipeline_end();
}
