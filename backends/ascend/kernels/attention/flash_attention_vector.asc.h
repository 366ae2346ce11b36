/* flash_attention_vector.asc.h - the forward's vector cores, of one type: exponentials of scores,
 * and the sums of products with v. */

/* What a vector core works with: its places in UB, and which copy of each pair is next. */
#define FLASH_UB ASC_NAME(flash_ub)
typedef struct FLASH_UB {
    int64_t s_at, p_at, folded_at, piece_at, sums_at, lanes_at, fading_at, total_at, shift_at;
    int64_t factor_at, max_at, top_at, fall_at, down_at, log_at, sink_at;
    int64_t slope_at, spare_at, bias_at;
    int s, p, piece, step;
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
static inline __aicore__ void ASC_NAME(flash_weigh)(const flash_problem *f, const FLASH_UB *u,
                                                    const flash_place *p, int64_t row, int64_t rows)
{
    const int64_t width = p->n > 0 ? asc_round_up(p->n, ASC_LANES) : ASC_LANES;
    const uint32_t n = (uint32_t)(rows * width);
    __ubuf__ float *s = ASC_UB(float, u->s_at, u->s);
    __ubuf__ ASC_T *e = ASC_UB(ASC_T, u->p_at, u->p);
    __ubuf__ float *fading = ASC_UB(float, u->fading_at, u->step) + row * 8;
    int64_t first;
    flash_rows_of(p, &first);
    const flash_band band = flash_band_of(f, &p->of, p->row, first + row, p->at);
    if (f->d == 0)
        asc_duplicate(s, 0.0f, n);
    ASC_THEN();
    if (flash_changes(f)) {
        const flash_change c = {ASC_UB(float, u->slope_at, 0), ASC_UB(float, u->spare_at, 0),
                                asc_place(u->bias_at, u->s)};
        flash_change_rows(f, &c, s, rows, width, p->n, 0);
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
#else
    asc_exp(e, s, n);
    ASC_THEN();
    s = e;
#endif
    FLASH_ALL_LANES();
    flash_fold(ASC_UB(float, u->lanes_at, 0) + row * ASC_LANES, fading, s, rows, width);
    ASC_HAS_READ(u->s);
    ASC_HAS_WRITTEN(u->p);
}

/* The sink of each of this core's rows, from row `first` of the task on. */
static inline __aicore__ void ASC_NAME(flash_sinks)(const flash_problem *f, const FLASH_UB *u,
                                                    const flash_place *p, int64_t first,
                                                    int64_t rows, __gm__ float *sinks)
{
    __ubuf__ float *sink = ASC_UB(float, u->sink_at, 0);
    if (f->together == 1) {
        asc_duplicate(sink, sinks[p->head], (uint32_t)rows);
        return;
    }
    ASC_FENCE(PIPE_V, PIPE_S);
    for (int64_t r = 0; r < rows; r++)
        sink[r] = sinks[p->head + (first + r) % f->together];
    ASC_FENCE(PIPE_S, PIPE_V);
}

/* Of rows whose exponentials have the sum `sum` relative to the maximum `down`: both with the
 * sinks; what sums are divided by, in `some`. Rows that see no key are divided by 1. */
static inline __aicore__ void ASC_NAME(flash_join_sinks)(const flash_problem *f, const FLASH_UB *u,
                                                         const flash_place *p, int64_t first,
                                                         int64_t rows)
{
    __ubuf__ float *sum = ASC_UB(float, u->top_at, 0), *some = ASC_UB(float, u->fall_at, 0);
    __ubuf__ float *down = ASC_UB(float, u->down_at, 0), *sink = ASC_UB(float, u->sink_at, 0);
    __ubuf__ float *top = ASC_UB(float, u->max_at, 0), *beside = ASC_UB(float, u->shift_at, 0);
    const flash_sequence seeing = flash_seeing(p->of);
    const int64_t blind = asc_min_of((seeing.query - p->row) * f->together - first, rows);
    const uint32_t n = (uint32_t)rows;
    asc_max(top, down, sink, n);
    asc_sub(beside, sink, down, n);
    ASC_THEN();
    asc_exp(beside, beside, n);
    asc_sub(down, down, top, n);
    asc_sub(sink, sink, top, n);
    ASC_THEN();
    asc_add(some, some, beside, n);
    asc_exp(down, down, n);
    asc_exp(sink, sink, n);
    ASC_THEN();
    asc_mul(sum, sum, down, n);
    if (blind > 0)
        asc_duplicate(some, 1.0f, (uint32_t)blind);
    ASC_THEN();
    asc_add(sum, sum, sink, n);
    asc_copy((__ubuf__ uint32_t *)down, (__ubuf__ uint32_t *)top, n);
    ASC_THEN();
}

/* Blocks of the rows' sums, and log(sum) + scale max: blocks, too, where they are no neighbours
 * in lse. */
static inline __aicore__ void ASC_NAME(flash_total)(const flash_problem *f, const FLASH_UB *u,
                                                    const flash_place *p, int64_t first,
                                                    int64_t rows, __gm__ float *sinks)
{
    const int turn = (int)(p->turn % 2);
    const int apart = flash_groups_of(f, flash_lse_strides(f)).stride != 1;
    __ubuf__ float *sum = ASC_UB(float, u->top_at, 0);
    __ubuf__ float *log = apart ? ASC_UB(float, u->max_at, 0) : ASC_UB(float, u->log_at, turn);
    __ubuf__ float *down = ASC_UB(float, u->down_at, 0), *some = ASC_UB(float, u->fall_at, 0);
    const uint32_t n = (uint32_t)rows;
    ASC_THEN();
    asc_repeat_reduce_sum(sum, ASC_UB(float, u->lanes_at, 0), n * ASC_LANES);
    asc_mul_scalar(down, ASC_UB(float, u->max_at, 0), f->scale, n);
    ASC_THEN();
    asc_max_scalar(some, sum, 1e-30f, n);
    if (sinks) {
        ASC_NAME(flash_sinks)(f, u, p, first, rows, sinks);
        ASC_THEN();
        ASC_NAME(flash_join_sinks)(f, u, p, first, rows);
    }
    asc_log(log, sum, n);
    ASC_THEN();
    asc_spread(ASC_UB(float, u->total_at, (int)(p->turn % FLASH_SLOTS)), some, rows);
    asc_add(log, log, down, n);
    ASC_THEN();
    FLASH_ALL_LANES();
    if (apart) {
        asc_spread(ASC_UB(float, u->log_at, turn), log, rows);
        ASC_THEN();
    }
}

/* log(sum) of rows of the task from `first` on. */
static inline __aicore__ void ASC_NAME(flash_lse_out)(const flash_problem *f, const flash_place *p,
                                                      uint64_t from, int64_t first, int64_t rows,
                                                      __gm__ float *lse)
{
    const asc_groups in = flash_groups_of(f, flash_lse_strides(f));
    lse += flash_lse_at(f, p->batch, p->row, p->head);
    if (in.stride == 1)
        flash_values_out(lse + asc_row_at(in, first), from, rows, 1);
    else
        flash_rows_out(lse, in, 4, from, first, rows, 4, 32);
}

/* The exponentials of a tile. */
static inline __aicore__ void ASC_NAME(flash_weigh_tile)(const flash_problem *f, FLASH_UB *u,
                                                         const flash_place *p, __gm__ float *scores,
                                                         __gm__ ASC_T *weights, __gm__ float *lse,
                                                         __gm__ float *sinks)
{
    int64_t first;
    const int64_t rows = flash_rows_of(p, &first), filled = p->n && (f->d || f->bias);
    const int64_t size = (int64_t)sizeof(ASC_T), width = asc_round_up(p->n, ASC_LANES);
    scores += first * f->tile;
    weights += first * f->tile;
    if (p->first && rows) {
        asc_duplicate(ASC_UB(float, u->max_at, 0), FLASH_LOWEST, (uint32_t)f->half);
        asc_duplicate(ASC_UB(float, u->lanes_at, 0), 0.0f, (uint32_t)(f->half * ASC_LANES));
    }
    if (rows && filled)
        ASC_NAME(flash_bring)(f, u, u->s, p, scores, 0);
    for (int64_t row = 0; row < rows; row += f->group) {
        const int64_t now = asc_min_of(f->group, rows - row), next = row + f->group;
        if (next < rows && filled)
            ASC_NAME(flash_bring)(f, u, 1 - u->s, p, scores, next);
        if (filled)
            ASC_WAIT(PIPE_MTE2, PIPE_V, u->s);
        else
            ASC_MAY_FILL(u->s);
        ASC_NAME(flash_weigh)(f, u, p, row, now);
        if (p->n)
            asc_copy_rows_out(weights + row * f->tile, asc_place(u->p_at, u->p), now, p->n * size,
                              f->tile * size, width * size);
        ASC_HAS_LEFT(u->p);
        u->s ^= 1;
        u->p ^= 1;
    }
    if (p->last && rows) {
        const int turn = (int)(p->turn % 2);
        ASC_RING_FLAG(asc_sync_wait, PIPE_MTE3, PIPE_V, 2 + turn);
        ASC_NAME(flash_total)(f, u, p, first, rows, sinks);
        ASC_FENCE(PIPE_V, PIPE_MTE3);
        if (lse)
            ASC_NAME(flash_lse_out)(f, p, asc_place(u->log_at, turn), first, rows, lse);
        ASC_RING_FLAG(asc_sync_notify, PIPE_MTE3, PIPE_V, 2 + turn);
    }
}

/* Of this core's rows, of the task's those from `first` on, some from `row` on: the sums,
 * divided. */
static inline __aicore__ void ASC_NAME(flash_write)(const flash_problem *f, FLASH_UB *u, int turn,
                                                    int64_t first, int64_t row, int64_t rows,
                                                    __gm__ ASC_T *y, asc_groups in)
{
    const int64_t size = (int64_t)sizeof(ASC_T), pitch = f->pitch;
    __ubuf__ float *sums = ASC_UB(float, u->sums_at, 0) + row * pitch;
    __ubuf__ float *total = ASC_UB(float, u->total_at, turn) + row * 8;
    __ubuf__ ASC_T *to = ASC_UB(ASC_T, u->p_at, u->p);
    ASC_MAY_WRITE(u->p);
    for (int64_t c = 0; c < pitch; c += ASC_LANES)
#if ASC_16BIT
        asc_div(sums + c, sums + c, total, (uint8_t)rows, 1, 1, 0, (uint8_t)(pitch / 8),
                (uint8_t)(pitch / 8), 1);
    ASC_THEN();
    ASC_NARROW(to, sums, (uint32_t)(rows * pitch));
    FLASH_ALL_LANES();
#else
        asc_div(to + c, sums + c, total, (uint8_t)rows, 1, 1, 0, (uint8_t)(pitch / 8),
                (uint8_t)(pitch / 8), 1);
#endif
    ASC_HAS_WRITTEN(u->p);
    flash_rows_out(y, in, size, (uint64_t)to, first + row, rows, f->e * size, pitch * size);
    ASC_HAS_LEFT(u->p);
    u->p ^= 1;
}

/* A piece of a tile's products with v joins the sums. */
static inline __aicore__ void ASC_NAME(flash_join)(const flash_problem *f, FLASH_UB *u, int step,
                                                   const flash_place *p, int64_t row, int64_t rows,
                                                   __gm__ float *from)
{
    const int64_t pitch = f->pitch;
    __ubuf__ float *sums = ASC_UB(float, u->sums_at, 0) + row * pitch;
    __ubuf__ float *piece = ASC_UB(float, u->piece_at, u->piece);
    __ubuf__ float *fading = ASC_UB(float, u->fading_at, step) + row * 8;
    const int event = 2 + u->piece;
    ASC_RING_FLAG(asc_sync_wait, PIPE_V, PIPE_MTE2, event);
    asc_copy_rows_in((uint64_t)piece, from + row * pitch, rows, 4 * f->e, 4 * pitch, 4 * pitch);
    ASC_RING_FLAG(asc_sync_notify, PIPE_MTE2, PIPE_V, event);
    ASC_RING_FLAG(asc_sync_wait, PIPE_MTE2, PIPE_V, event);
    if (p->first)
        asc_copy((__ubuf__ uint32_t *)sums, (__ubuf__ uint32_t *)piece, (uint32_t)(rows * pitch));
    else
        for (int64_t c = 0; c < pitch; c += ASC_LANES)
            asc_mul_add(sums + c, fading, piece + c, (uint8_t)rows, 1, 0, 1, (uint8_t)(pitch / 8),
                        1, (uint8_t)(pitch / 8));
    FLASH_ALL_LANES();
    ASC_RING_FLAG(asc_sync_notify, PIPE_V, PIPE_MTE2, event);
    u->piece ^= 1;
}

static inline __aicore__ void ASC_NAME(flash_join_tile)(const flash_problem *f, FLASH_UB *u,
                                                        int step, const flash_place *p,
                                                        __gm__ float *sums, __gm__ ASC_T *y,
                                                        asc_groups in)
{
    int64_t first;
    const int64_t rows = flash_rows_of(p, &first);
    const int64_t room = asc_min_of(FLASH_PIECE / 4, f->group * f->tile);
    const int64_t piece = f->e ? room / f->pitch : 1;
    for (int64_t row = 0; row < rows && f->e; row += piece) {
        const int64_t now = asc_min_of(piece, rows - row);
        ASC_THEN();
        if (p->n)
            ASC_NAME(flash_join)(f, u, step, p, row, now, sums + first * f->pitch);
        else
            asc_duplicate(ASC_UB(float, u->sums_at, 0) + row * f->pitch, 0.0f,
                          (uint32_t)(now * f->pitch));
        FLASH_ALL_LANES();
        if (!p->last)
            continue;
        ASC_THEN();
        ASC_NAME(flash_write)(f, u, (int)(p->turn % FLASH_SLOTS), first, row, now, y, in);
    }
}

/* Flags of the buffers: those of scores and of what leaves UB, of pieces of
 * sums, and of log(sum). */
#define FLASH_BUFFERS(op)             \
    ASC_BUFFERS(op, PIPE_V);          \
    op(PIPE_V, PIPE_MTE2, EVENT_ID2); \
    op(PIPE_V, PIPE_MTE2, EVENT_ID3); \
    op(PIPE_MTE3, PIPE_V, EVENT_ID2); \
    op(PIPE_MTE3, PIPE_V, EVENT_ID3)

/* What arithmetic runs over without anything having come there is 0. */
static inline __aicore__ void ASC_NAME(flash_clear)(const flash_problem *f, const FLASH_UB *u)
{
    const int64_t places[] = {u->max_at, u->top_at, u->fall_at, u->down_at};
    for (int i = 0; i < 4; i++)
        asc_duplicate(ASC_UB(float, places[i], 0), 0.0f, (uint32_t)asc_round_up(f->half, 8));
    for (int i = 0; i < 2; i++)
        asc_duplicate(ASC_UB(float, u->piece_at, i), 0.0f, FLASH_PIECE / 4);
    asc_duplicate(ASC_UB(float, u->factor_at, 0), f->scale, 8);
    for (int i = 0; i < 2 && f->bias; i++)
        asc_duplicate(ASC_UB(float, u->bias_at, i), 0.0f, (uint32_t)(f->group * f->tile));
    ASC_THEN();
}

static inline __aicore__ void ASC_NAME(flash_attend)(const flash_problem *f, FLASH_UB *u,
                                                     const FLASH_WORK *w, __gm__ ASC_T *y,
                                                     flash_strides of_y, __gm__ float *lse,
                                                     __gm__ float *sinks)
{
    flash_place here = flash_first_place(f), ahead = here;
    asc_modes_set();
    ASC_NAME(flash_clear)(f, u);
    FLASH_BUFFERS(asc_sync_notify);
    for (int step = 0; !here.none; step++) {
        if (!ahead.none) {
            u->step = step % FLASH_SLOTS;
            asc_sync_block_wait(PIPE_S, FLASH_SCORED);
            ASC_NAME(flash_weigh_tile)
            (f, u, &ahead, w->scores[u->step], w->weights[u->step], lse, sinks);
            asc_sync_block_arrive(PIPE_MTE3, FLASH_WEIGHED);
            flash_go_on(f, &ahead);
        }
        if (step < FLASH_AHEAD)
            continue;
        const int slot = (step - FLASH_AHEAD) % FLASH_SLOTS;
        asc_sync_block_wait(PIPE_S, FLASH_SUMMED);
        ASC_NAME(flash_join_tile)
        (f, u, slot, &here, w->sums[slot], y + flash_at(of_y, here.batch, here.row, here.head),
         flash_groups_of(f, of_y));
        flash_go_on(f, &here);
    }
    FLASH_BUFFERS(asc_sync_wait);
    asc_modes_clear();
}
