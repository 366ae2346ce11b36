/* flash_attention_ends.asc.h - the forward's vector cores, of one type: what the end of a task
 * makes of its sums. */

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
    if (f->least) { /* what is kept is worth more */
        ASC_THEN();
        asc_mul_scalar(some, some, flash_share_kept(f), n);
        ASC_THEN();
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
