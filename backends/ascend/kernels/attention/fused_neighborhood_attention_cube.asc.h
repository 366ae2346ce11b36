/* fused_neighborhood_attention_cube.asc.h - the cube core's side, of one type: scores of windows,
 * and products of what is made of them. */

/* What a vector core has in memory: scores, and their gradients; exponentials, and their gradients.
 * A block has two slots for each of its two. odd: of each window of the launch a line, in which a
 * number is not 0 if there is something that is not finite among what the cube core multiplies. */
#define NEIGHBORHOOD_WORK ASC_NAME(neighborhood_work)
typedef struct NEIGHBORHOOD_WORK {
    __gm__ char *odd;
    __gm__ float *s[2][2], *ds[2][2];
    __gm__ ASC_T *p[2][2], *dp[2][2];
} NEIGHBORHOOD_WORK;

/* reach: as in neighborhood_window_of(). The forward has no gradients. */
static inline __aicore__ NEIGHBORHOOD_WORK ASC_NAME(neighborhood_work_of)(
    const flash_problem *f, int64_t reach, int backward, __gm__ char *work, int64_t work_block)
{
    const int64_t elements = asc_min_of(f->half + 2 * reach, f->queries) * f->tile;
    NEIGHBORHOOD_WORK w;
    w.odd = work;
    work += neighborhood_windows(f) * NEIGHBORHOOD_LINE + asc_get_block_idx() * work_block;
    for (int slot = 0; slot < 2; slot++)
        for (int core = 0; core < 2; core++) {
            w.s[slot][core] = (__gm__ float *)work;
            work += 4 * elements;
            w.ds[slot][core] = backward ? (__gm__ float *)work : NULL;
            work += backward * 4 * elements;
            w.p[slot][core] = (__gm__ ASC_T *)work;
            work += elements * (int64_t)sizeof(ASC_T);
            w.dp[slot][core] = (__gm__ ASC_T *)work;
            work += backward * elements * (int64_t)sizeof(ASC_T);
        }
    return w;
}

static inline __aicore__ __gm__ float *ASC_NAME(neighborhood_odd)(const NEIGHBORHOOD_WORK *w,
                                                                  int64_t window)
{
    return (__gm__ float *)(w->odd + window * NEIGHBORHOOD_LINE);
}

/* Products of the rows of x that are the window's queries and those of y that are its keys. */
static inline __aicore__ void ASC_NAME(neighborhood_score)(const flash_problem *f, asc_products *c,
                                                           const neighborhood_window *w,
                                                           const FLASH_TENSOR *x,
                                                           const FLASH_TENSOR *y, __gm__ float *to)
{
    const asc_operand left = asc_operand_of(x->of.row, 0, -1);
    if (w->rows)
        ASC_NAME(flash_dot)
    (f, c, x->at + flash_at(x->of, w->batch, w->row, w->head), &left, w->rows,
     y->at + flash_at(y->of, w->batch, w->key, w->head), y->of.row, -1, w->keys, f->d, to);
}

/* The window's own rows of `to`: weights, or turned ones, times rows of x. strip: so many rows at a
 * time; of the weights that are 0 because the one position does not see the other, a strip of one
 * row multiplies none. */
static inline __aicore__ void ASC_NAME(neighborhood_sum)(const flash_problem *f, asc_products *c,
                                                         const neighborhood_window *w,
                                                         int64_t strip, __gm__ ASC_T *weights,
                                                         int turned, const FLASH_TENSOR *x,
                                                         const FLASH_TENSOR *to)
{
    const asc_operand left = asc_operand_of(f->tile, turned, -1);
    const asc_operand right = asc_operand_of(x->of.row, 1, -1);
    for (int64_t at = w->own; at < w->own + w->owns; at += strip) {
        const int64_t rows = asc_min_of(strip, w->own + w->owns - at);
        int64_t from;
        const int64_t n = neighborhood_seen(f, at, rows, &from);
        __gm__ ASC_T *a = turned ? weights + (from - w->row) * f->tile + at - w->key
                                 : weights + (at - w->row) * f->tile + from - w->key;
        for (int64_t d = 0; d < f->d; d += ASC_SIDE)
            ASC_NAME(asc_product_rounded)
        (c, a, &left, x->at + flash_at(x->of, w->batch, from, w->head) + d, &right, rows,
         asc_min_of(ASC_SIDE, f->d - d), n, to->at + flash_at(to->of, w->batch, at, w->head) + d,
         to->of.row);
    }
}

/* The strip for a window: all of it, or a row if there is something that 0 times it is not 0. */
static inline __aicore__ int64_t ASC_NAME(neighborhood_strip)(const flash_problem *f,
                                                              __gm__ float *odd)
{
    __gm__ uint32_t *bits = (__gm__ uint32_t *)odd;
    asc_dcci_entire_all();
    return *bits << 1 ? 1 : f->half;
}

/* to: y; or, where there is dy, dq, dk and dv. */
static inline __aicore__ void
ASC_NAME(neighborhood_multiply)(const flash_problem *f, const NEIGHBORHOOD_WORK *w, int64_t reach,
                                const FLASH_TENSOR *q, const FLASH_TENSOR *k, const FLASH_TENSOR *v,
                                const FLASH_TENSOR *dy, const FLASH_TENSOR *to)
{
    const int64_t all = neighborhood_windows(f);
    asc_products c = asc_products_begin(FLASH_PAIRS);
    for (int64_t step = 0; step == 0 || neighborhood_first(step - 1) < all; step++) {
        const int64_t ahead = neighborhood_first(step), here = neighborhood_first(step - 1);
        const int now = (int)(step % 2), then = 1 - now;
        for (int core = 0; core < 2 && ahead < all; core++) {
            const neighborhood_window n = neighborhood_window_of(f, ahead + core, reach);
            ASC_NAME(neighborhood_score)(f, &c, &n, q, k, w->s[now][core]);
            if (dy)
                ASC_NAME(neighborhood_score)(f, &c, &n, dy, v, w->ds[now][core]);
        }
        if (ahead < all)
            asc_sync_block_arrive(PIPE_FIX, FLASH_SCORED);
        if (step == 0)
            continue;
        asc_sync_block_wait(PIPE_S, FLASH_WEIGHED);
        for (int core = 0; core < 2 && here + core < all; core++) {
            const neighborhood_window n = neighborhood_window_of(f, here + core, reach);
            const int64_t strip =
                ASC_NAME(neighborhood_strip)(f, ASC_NAME(neighborhood_odd)(w, here + core));
            ASC_NAME(neighborhood_sum)
            (f, &c, &n, strip, dy ? w->dp[then][core] : w->p[then][core], 0, dy ? k : v, &to[0]);
            if (dy) {
                ASC_NAME(neighborhood_sum)(f, &c, &n, strip, w->dp[then][core], 1, q, &to[1]);
                ASC_NAME(neighborhood_sum)(f, &c, &n, strip, w->p[then][core], 1, dy, &to[2]);
            }
        }
    }
    asc_products_end();
}
