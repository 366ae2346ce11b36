/* flash_attention_vector.asc.h - the forward's vector cores, of one type: tiles of exponentials,
 * and the sums of products with v. */

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
    if (f->least && rows)
        flash_draw_tile(f, &u->drawing, p, first, rows);
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
    if (f->softcap != 0.0f)
        asc_duplicate(ASC_UB(float, u->slope_at, 0), -2.0f * f->softcap, 8);
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
    if (f->least)
        flash_draw_begin(f, &u->drawing);
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
