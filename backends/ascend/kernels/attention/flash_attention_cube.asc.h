/* flash_attention_cube.asc.h - the forward's cube core, of one type: scores of tiles, and products
 * of their exponentials with v. */

/* The slots of a block in global memory. */
#define FLASH_WORK ASC_NAME(flash_work)
typedef struct FLASH_WORK {
    __gm__ float *scores[FLASH_SLOTS], *sums[FLASH_SLOTS];
    __gm__ ASC_T *weights[FLASH_SLOTS];
} FLASH_WORK;

static inline __aicore__ FLASH_WORK ASC_NAME(flash_work_of)(const flash_problem *f,
                                                            __gm__ char *work)
{
    FLASH_WORK w;
    const int64_t elements = 2 * f->half * f->tile;
    const int64_t sums = 2 * f->half * f->pitch;
    for (int i = 0; i < FLASH_SLOTS; i++) {
        w.scores[i] = (__gm__ float *)work + i * elements;
        w.sums[i] = (__gm__ float *)work + FLASH_SLOTS * elements + i * sums;
        w.weights[i] = (__gm__ ASC_T *)(work + 4 * FLASH_SLOTS * (elements + sums)) + i * elements;
    }
    return w;
}

/* Scores of a tile. An operand of one step stays in L1 for all tiles of the task. */
static inline __aicore__ void ASC_NAME(flash_score)(const flash_problem *f, asc_products *c,
                                                    const flash_place *p, __gm__ ASC_T *q,
                                                    flash_strides of_q, __gm__ ASC_T *k,
                                                    int64_t k_row, __gm__ float *to)
{
    const int turn = (int)(p->turn % 2), event = FLASH_PAIRS + turn;
    const int64_t held = f->d > 0 && f->d <= ASC_DEPTH ? 2 * FLASH_PAIRS + turn : -1;
    const asc_operand left = f->together > 1 ? asc_operand_in_groups(flash_groups_of(f, of_q), held)
                                             : asc_operand_of(of_q.row, 0, held);
    if (left.held >= 0 && p->first)
        ASC_NAME(asc_hold)(q, &left, event, p->rows, f->d);
    ASC_NAME(flash_dot)(f, c, q, &left, p->rows, k, k_row, -1, p->n, f->d, to);
    if (left.held >= 0 && p->last)
        ASC_NAME(asc_let_go)(event);
}

static inline __aicore__ void ASC_NAME(flash_sum)(const flash_problem *f, asc_products *c,
                                                  const flash_place *p, __gm__ ASC_T *weights,
                                                  __gm__ ASC_T *v, int64_t v_row, __gm__ float *to)
{
    const asc_operand left = asc_operand_of(f->tile, 0, -1);
    const asc_operand right = asc_operand_of(v_row, 1, -1);
    for (int64_t e = 0; e < f->e && p->n; e += ASC_SIDE)
        ASC_NAME(asc_product)
    (c, weights, &left, v + e, &right, p->rows, asc_min_of(ASC_SIDE, f->e - e), p->n, to + e,
     f->pitch);
}

static inline __aicore__ void ASC_NAME(flash_multiply)(const flash_problem *f, const FLASH_WORK *w,
                                                       __gm__ ASC_T *q, flash_strides of_q,
                                                       __gm__ ASC_T *k, flash_strides of_k,
                                                       __gm__ ASC_T *v, flash_strides of_v)
{
    asc_products c = asc_products_begin(FLASH_PAIRS);
    flash_place here = flash_first_place(f), ahead = here;
    for (int step = 0; !here.none; step++) {
        if (!ahead.none) {
            ASC_NAME(flash_score)
            (f, &c, &ahead, q + flash_at(of_q, ahead.batch, ahead.row, ahead.head), of_q,
             k + flash_at(of_k, ahead.batch, ahead.at, ahead.head / f->shared), of_k.row,
             w->scores[step % FLASH_SLOTS]);
            asc_sync_block_arrive(PIPE_FIX, FLASH_SCORED);
            flash_go_on(f, &ahead);
        }
        if (step < FLASH_AHEAD)
            continue;
        const int slot = (step - FLASH_AHEAD) % FLASH_SLOTS;
        asc_sync_block_wait(PIPE_S, FLASH_WEIGHED);
        ASC_NAME(flash_sum)
        (f, &c, &here, w->weights[slot],
         v + flash_at(of_v, here.batch, here.at, here.head / f->shared), of_v.row, w->sums[slot]);
        asc_sync_block_arrive(PIPE_FIX, FLASH_SUMMED);
        flash_go_on(f, &here);
    }
    asc_products_end();
}
