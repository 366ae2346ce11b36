/* flash_attention_weights.asc.h - the forward's vector cores, of one type: what they have, and
 * exponentials of rows of scores. */

/* What a vector core works with: its places in UB, and which copy of each pair is next. */
#define FLASH_UB ASC_NAME(flash_ub)
typedef struct FLASH_UB {
    int64_t s_at, p_at, folded_at, piece_at, sums_at, lanes_at, fading_at, total_at, shift_at;
    int64_t factor_at, max_at, top_at, fall_at, down_at, log_at, sink_at;
    int64_t slope_at, spare_at, bias_at;
    int s, p, piece, step;
    flash_drawing drawing;
} FLASH_UB;

/* Of this core's rows those from `row` on come in, up to a group, of scores and of the bias. */
static inline __aicore__ void ASC_NAME(flash_bring)(const flash_problem *f, const FLASH_UB *u,
                                                    int s, const flash_place *p,
                                                    __gm__ float *scores, int64_t row)
{
    int64_t first;
    const int64_t rows = asc_min_of(f->group, flash_rows_of(p, &first) - row);
    ASC_MAY_FILL(s);
    if (f->d)
        flash_scores_in(f, ASC_UB(float, u->s_at, s), scores + row * f->tile, rows, p->n);
    if (f->bias)
        flash_bias_in(f, asc_place(u->bias_at, s), p->batch, p->row, p->head, p->at, first + row,
                      rows, p->n);
    ASC_NOTIFY(PIPE_MTE2, PIPE_V, s);
}

/* Blocks of the running maxima of `rows` rows from `row` on, times -scale, and of the factors by
 * which sums so far shrink. */
static inline __aicore__ void ASC_NAME(flash_raise)(const flash_problem *f, const FLASH_UB *u,
                                                    __ubuf__ float *s, int64_t row, int64_t rows,
                                                    int64_t width)
{
    __ubuf__ float *top = ASC_UB(float, u->top_at, 0), *max = ASC_UB(float, u->max_at, 0) + row;
    __ubuf__ float *fall = ASC_UB(float, u->fall_at, 0), *down = ASC_UB(float, u->down_at, 0);
    const uint32_t n = (uint32_t)rows;
    flash_largest(top, ASC_UB(float, u->folded_at, 0), s, rows, width);
    asc_max(top, top, max, n);
    ASC_THEN();
    asc_sub(fall, max, top, n);
    asc_mul_scalar(down, top, -f->scale, n);
    ASC_THEN();
    asc_mul_scalar(fall, fall, f->scale, n);
    asc_copy((__ubuf__ uint32_t *)max, (__ubuf__ uint32_t *)top, n);
    asc_spread(ASC_UB(float, u->shift_at, 0), down, rows);
    ASC_THEN();
    asc_exp(fall, fall, n);
    FLASH_ALL_LANES();
}

/* Of `rows` rows of scores, in copy u->s, the exponentials, in copy u->p; their
 * sums, lane by lane. */
static inline __aicore__ void ASC_NAME(flash_weigh)(const flash_problem *f, FLASH_UB *u,
                                                    const flash_place *p, int64_t row, int64_t rows)
{
    const int64_t width = p->n > 0 ? asc_round_up(p->n, ASC_LANES) : ASC_LANES;
    const uint32_t n = (uint32_t)(rows * width);
    __ubuf__ float *s = ASC_UB(float, u->s_at, u->s);
    __ubuf__ ASC_T *e = ASC_UB(ASC_T, u->p_at, u->p);
    __ubuf__ float *fading = ASC_UB(float, u->fading_at, u->step) + row * 8;
    int64_t first;
    const int64_t all = flash_rows_of(p, &first);
    const int drops = f->least && p->n;
    __ubuf__ uint16_t *const kept = drops ? flash_kept(f, &u->drawing, row, rows, all, width) : 0;
    const flash_band band = flash_band_of(f, &p->of, p->row, first + row, p->at);
    if (f->d == 0)
        asc_duplicate(s, 0.0f, n);
    ASC_THEN();
    if (flash_changes(f)) {
        __ubuf__ float *slope = ASC_UB(float, u->slope_at, 0);
        const flash_change c = {slope, ASC_UB(float, u->spare_at, 0), ASC_16BIT ? slope : 0,
                                asc_place(u->bias_at, u->s), 0};
        flash_change_rows(f, &c, s, rows, width, p->n);
    }
    FLASH_ALL_LANES();
    if (flash_is_masked(band, rows, p->n, width))
        flash_mask(s, rows, width, band, p->n, f->negative ? -FLASH_NOTHING : FLASH_NOTHING);
    ASC_THEN();
    if (f->negative)
        asc_mul_scalar(s, s, -1.0f, n);
    ASC_THEN();
    ASC_NAME(flash_raise)(f, u, s, row, rows, width);
    flash_shift(s, ASC_UB(float, u->factor_at, 0), ASC_UB(float, u->shift_at, 0), rows, width);
    ASC_THEN();
    ASC_MAY_WRITE(u->p);
    asc_spread(fading, ASC_UB(float, u->fall_at, 0), rows);
#if ASC_16BIT
    asc_exp(s, s, n);
    ASC_THEN();
    ASC_NARROW(e, s, n);
    if (drops) {
        ASC_THEN();
        asc_and((__ubuf__ uint16_t *)e, (__ubuf__ uint16_t *)e, kept, n);
    }
#else
    asc_exp(e, s, n);
    ASC_THEN();
    s = e;
#endif
    FLASH_ALL_LANES();
    flash_fold(ASC_UB(float, u->lanes_at, 0) + row * ASC_LANES, fading, s, rows, width);
#if !ASC_16BIT
    if (drops) {
        ASC_THEN();
        asc_mul(e, e, flash_kept_ones(&u->drawing, kept, n), n);
        FLASH_ALL_LANES();
    }
#endif
    ASC_HAS_READ(u->s);
    ASC_HAS_WRITTEN(u->p);
}
