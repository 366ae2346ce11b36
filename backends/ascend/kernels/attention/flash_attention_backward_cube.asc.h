/* flash_attention_backward_cube.asc.h - the backward's cube core, of one type: scores and their
 * gradients, and what a unit adds to dq, dk, dv. */

/* A block's slots in global memory, two of each; see flash_attention_backward.args.h. */
#define FLASH_WORK ASC_NAME(flash_work)
typedef struct FLASH_WORK {
    __gm__ float *s[2], *ds[2];
    __gm__ ASC_T *p[2], *dp[2];
} FLASH_WORK;

static inline __aicore__ FLASH_WORK ASC_NAME(flash_work_of)(const flash_problem *f,
                                                            __gm__ char *work)
{
    FLASH_WORK w;
    const int64_t elements = 2 * f->half * f->tile;
    __gm__ ASC_T *narrow = (__gm__ ASC_T *)(work + 16 * elements);
    for (int i = 0; i < 2; i++) {
        w.s[i] = (__gm__ float *)work + i * elements;
        w.ds[i] = (__gm__ float *)work + (2 + i) * elements;
        w.p[i] = narrow + i * FLASH_TILES * elements;
        w.dp[i] = narrow + (2 + i) * FLASH_TILES * elements;
    }
    return w;
}

/* What L1 holds of 16 bits, behind fewer pairs: the rows of k of a tile of keys, which are up to
 * FLASH_TILES tiles of L1, as are the others; those of v while scores are made, and those of dy or
 * q that a unit's products read; a tile of queries. Of f32, two tiles of queries. */
#define FLASH_HOLDS ASC_16BIT
enum {
    ASC_NAME(FLASH_RING) = FLASH_HOLDS ? 3 : FLASH_PAIRS,
    ASC_NAME(FLASH_KEYS_AT) = 2 * ASC_NAME(FLASH_RING),
    ASC_NAME(FLASH_ROWS_AT) = ASC_NAME(FLASH_KEYS_AT) + FLASH_TILES,
    ASC_NAME(FLASH_QUERIES_AT) = ASC_NAME(FLASH_KEYS_AT) + FLASH_HOLDS * 2 * FLASH_TILES,
    ASC_NAME(FLASH_KEYS_HELD) = ASC_NAME(FLASH_RING),
    ASC_NAME(FLASH_ROWS_HELD),
    ASC_NAME(FLASH_QUERIES_HELD) = ASC_NAME(FLASH_RING) + FLASH_HOLDS * 2
};

/* Whether rows of k and of v are held, and of which keys. */
#define FLASH_HELD ASC_NAME(flash_held)
typedef struct FLASH_HELD {
    int keys, values;
    flash_step of;
} FLASH_HELD;

/* Whether rows of x are held, where that is possible: they are no wider than a tile. */
static inline __aicore__ int ASC_NAME(flash_holds)(const FLASH_TENSOR *x)
{
    return FLASH_HOLDS && x->width > 0 && x->width <= ASC_DEPTH;
}

/* Rows of x of a batch and head, to tiles of L1 from `to` on. */
static inline __aicore__ void ASC_NAME(flash_hold)(const FLASH_TENSOR *x, int64_t batch,
                                                   int64_t row, int64_t head, int64_t rows,
                                                   int64_t to, int event)
{
    const asc_operand o = asc_operand_of(x->of.row, 0, to);
    ASC_NAME(asc_hold)(x->at + flash_at(x->of, batch, row, head), &o, event, rows, x->width);
}

static inline __aicore__ void ASC_NAME(flash_forget)(int *held, int event)
{
    if (*held)
        ASC_NAME(asc_let_go)(event);
    *held = 0;
}

/* The place of what is held of the step's keys, or -1. */
static inline __aicore__ int64_t ASC_NAME(flash_held_at)(const FLASH_HELD *h, int held,
                                                         const flash_step *s, int64_t at)
{
    return held && flash_same_keys(&h->of, s) ? at : -1;
}

/* Rows of k and v that scores of `ahead` read are held from here on, unless what `here` has still
 * to add reads others. */
static inline __aicore__ void ASC_NAME(flash_hold_keys)(FLASH_HELD *h, const flash_step *here,
                                                        const flash_step *ahead,
                                                        const FLASH_TENSOR *k,
                                                        const FLASH_TENSOR *v)
{
    if (!flash_same_keys(here, ahead))
        return;
    if (!flash_same_keys(&h->of, ahead)) {
        ASC_NAME(flash_forget)(&h->keys, ASC_NAME(FLASH_KEYS_HELD));
        ASC_NAME(flash_forget)(&h->values, ASC_NAME(FLASH_ROWS_HELD));
        h->of = *ahead;
    }
    if (!h->keys && ASC_NAME(flash_holds)(k)) {
        ASC_NAME(flash_hold)
        (k, ahead->batch, ahead->key, ahead->key_head, ahead->keys, ASC_NAME(FLASH_KEYS_AT),
         ASC_NAME(FLASH_KEYS_HELD));
        h->keys = 1;
    }
    if (!h->values && ASC_NAME(flash_holds)(v)) {
        ASC_NAME(flash_hold)
        (v, ahead->batch, ahead->key, ahead->key_head, ahead->keys, ASC_NAME(FLASH_ROWS_AT),
         ASC_NAME(FLASH_ROWS_HELD));
        h->values = 1;
    }
}

/* Of a tile of queries x and the unit's keys y that it sees, the products of their rows. which: of
 * the tiles of queries that are held; held: where y is, or -1. */
static inline __aicore__ void ASC_NAME(flash_score)(const flash_problem *f, asc_products *c,
                                                    const flash_step *s, const FLASH_TENSOR *x,
                                                    const FLASH_TENSOR *y, int which, int64_t held,
                                                    __gm__ float *to)
{
    const flash_columns seen = flash_tile_keys(f, s, s->tile);
    const int64_t rows = flash_tile_rows(f, s, s->tile);
    __gm__ ASC_T *left = x->at + flash_at(x->of, s->batch, s->row + s->tile * 2 * f->half, s->head);
    __gm__ ASC_T *right = y->at + flash_at(y->of, s->batch, s->key + seen.first, s->key_head);
    const int other = FLASH_HOLDS ? 0 : which, event = ASC_NAME(FLASH_QUERIES_HELD) + other;
    const int holds = x->width > 0 && x->width <= ASC_DEPTH && seen.first < seen.end;
    const asc_operand a =
        asc_operand_of(x->of.row, 0, holds ? ASC_NAME(FLASH_QUERIES_AT) + other : -1);
    if (holds)
        ASC_NAME(asc_hold)(left, &a, event, rows, x->width);
    ASC_NAME(flash_dot)
    (f, c, left, &a, rows, right, y->of.row, held < 0 ? held : held + seen.first / ASC_SIDE,
     seen.end - seen.first, x->width, to + seen.first);
    if (holds)
        ASC_NAME(asc_let_go)(event);
}

/* The unit's part of dk or dv: weights, turned, times its queries x, which are held meanwhile. Of a
 * side of keys those queries count that see it, which are neighbours. */
static inline __aicore__ void ASC_NAME(flash_add_keys)(const flash_problem *f, asc_products *c,
                                                       const flash_step *s, __gm__ ASC_T *weights,
                                                       const FLASH_TENSOR *x, __gm__ float *to)
{
    const int64_t each = 2 * f->half, tiles = (s->rows + each - 1) / each;
    const int64_t pitch = asc_round_up(x->width, ASC_LANES);
    const int holds = ASC_NAME(flash_holds)(x);
    const asc_operand a = asc_operand_of(f->tile, 1, -1);
    if (holds)
        ASC_NAME(flash_hold)
    (x, s->batch, s->row, s->head, s->rows, ASC_NAME(FLASH_ROWS_AT), ASC_NAME(FLASH_ROWS_HELD));
    for (int64_t key = 0; key < s->keys; key += ASC_SIDE) {
        int64_t tile = 0, end;
        while (tile < tiles && !flash_tile_sees(f, s, tile, key))
            tile++;
        for (end = tile; end < tiles && flash_tile_sees(f, s, end, key);)
            end++;
        const int64_t row = tile * each, rows = asc_min_of(end * each, s->rows) - row;
        const asc_operand b =
            asc_operand_of(x->of.row, 1, holds ? ASC_NAME(FLASH_ROWS_AT) + tile : -1);
        for (int64_t d = 0; d < x->width && tile < end; d += ASC_SIDE)
            ASC_NAME(asc_product)
        (c, weights + row * f->tile + key, &a,
         x->at + flash_at(x->of, s->batch, s->row + row, s->head) + d, &b,
         asc_min_of(ASC_SIDE, s->keys - key), asc_min_of(ASC_SIDE, x->width - d), rows,
         to + key * pitch + d, pitch);
    }
    if (holds)
        ASC_NAME(asc_let_go)(ASC_NAME(FLASH_ROWS_HELD));
}

/* A tile's part of dq: weights times the unit's keys; held: where these are, or -1. */
static inline __aicore__ void ASC_NAME(flash_add_queries)(const flash_problem *f, asc_products *c,
                                                          const flash_step *s,
                                                          __gm__ ASC_T *weights,
                                                          const FLASH_TENSOR *k, int64_t held,
                                                          __gm__ float *to)
{
    const flash_columns seen = flash_tile_keys(f, s, s->tile);
    const asc_operand a = asc_operand_of(f->tile, 0, -1);
    const asc_operand b =
        asc_operand_of(k->of.row, 1, held < 0 ? held : held + seen.first / ASC_SIDE);
    const int64_t row = s->tile * 2 * f->half, pitch = asc_round_up(f->d, ASC_LANES);
    __gm__ ASC_T *keys = k->at + flash_at(k->of, s->batch, s->key + seen.first, s->key_head);
    for (int64_t d = 0; d < f->d && seen.first < seen.end; d += ASC_SIDE)
        ASC_NAME(asc_product)
    (c, weights + row * f->tile + seen.first, &a, keys + d, &b, flash_tile_rows(f, s, s->tile),
     asc_min_of(ASC_SIDE, f->d - d), seen.end - seen.first, to + row * pitch + d, pitch);
}

/* From here on copies out store what nothing has been added to yet, and else add. */
static inline __aicore__ void ASC_NAME(flash_store_or_add)(int store)
{
    if (store)
        asc_set_atomic_none();
    else
        asc_set_atomic_add_float();
}

/* What a tile of queries adds to dq, and the last one of a unit to dk and dv for all of it. The
 * copies of earlier ones have ended: each element is added to in the order of the units. The last
 * tile's dq stands between the two that read rows of queries, so that those of q come while it is
 * made. */
static inline __aicore__ void ASC_NAME(flash_add)(const flash_problem *f, asc_products *c,
                                                  const flash_step *s, const FLASH_WORK *w,
                                                  FLASH_HELD *h, const FLASH_TENSOR *q,
                                                  const FLASH_TENSOR *k, const FLASH_TENSOR *dy,
                                                  __gm__ float *dq, __gm__ float *dk,
                                                  __gm__ float *dv)
{
    const int set = (int)(s->number % 2), last = flash_last_tile(f, s);
    const int64_t key_heads = f->heads / f->shared;
    const int64_t pitch = asc_round_up(f->d, ASC_LANES);
    const int64_t of_keys =
        ((s->key_part * f->batches + s->batch) * key_heads + s->key_head) * f->keys + s->key;
    const int64_t of_queries =
        ((s->query_part * f->batches + s->batch) * f->heads + s->head) * f->queries + s->row;
    const int64_t keys = ASC_NAME(flash_held_at)(h, h->keys, s, ASC_NAME(FLASH_KEYS_AT));
    asc_sync_pipe(PIPE_FIX);
    if (last) {
        ASC_NAME(flash_forget)(&h->values, ASC_NAME(FLASH_ROWS_HELD));
        ASC_NAME(flash_store_or_add)(s->first_of_keys);
        ASC_NAME(flash_add_keys)(f, c, s, w->p[set], dy, dv + of_keys * f->pitch);
    }
    ASC_NAME(flash_store_or_add)(s->first_of_queries);
    ASC_NAME(flash_add_queries)(f, c, s, w->dp[set], k, keys, dq + of_queries * pitch);
    if (last) {
        ASC_NAME(flash_store_or_add)(s->first_of_keys);
        ASC_NAME(flash_add_keys)(f, c, s, w->dp[set], q, dk + of_keys * pitch);
    }
    asc_set_atomic_none();
}

static inline __aicore__ void ASC_NAME(flash_multiply)(const flash_problem *f,
                                                       const flash_units *units,
                                                       const FLASH_WORK *w, const FLASH_TENSOR *q,
                                                       const FLASH_TENSOR *k, const FLASH_TENSOR *v,
                                                       const FLASH_TENSOR *dy, __gm__ float *dq,
                                                       __gm__ float *dk, __gm__ float *dv)
{
    asc_products c = asc_products_begin(ASC_NAME(FLASH_RING));
    flash_step here = flash_start(f, units), ahead = here;
    FLASH_HELD h;
    h.keys = h.values = 0;
    h.of = here;
    for (int step = 0; here.unit < here.end; step++) {
        if (ahead.unit < ahead.end) {
            ASC_NAME(flash_hold_keys)(&h, &here, &ahead, k, v);
            ASC_NAME(flash_score)
            (f, &c, &ahead, q, k, 0,
             ASC_NAME(flash_held_at)(&h, h.keys, &ahead, ASC_NAME(FLASH_KEYS_AT)), w->s[step % 2]);
            ASC_NAME(flash_score)
            (f, &c, &ahead, dy, v, 1,
             ASC_NAME(flash_held_at)(&h, h.values, &ahead, ASC_NAME(FLASH_ROWS_AT)),
             w->ds[step % 2]);
            asc_sync_block_arrive(PIPE_FIX, FLASH_SCORED);
            flash_next(f, &ahead);
        }
        if (step == 0)
            continue;
        asc_sync_block_wait(PIPE_S, FLASH_WEIGHED);
        ASC_NAME(flash_add)(f, &c, &here, w, &h, q, k, dy, dq, dk, dv);
        if (flash_last_tile(f, &here))
            asc_sync_block_arrive(PIPE_FIX, FLASH_SUMMED);
        flash_next(f, &here);
    }
    ASC_NAME(flash_forget)(&h.keys, ASC_NAME(FLASH_KEYS_HELD));
    ASC_NAME(flash_forget)(&h.values, ASC_NAME(FLASH_ROWS_HELD));
    asc_products_end();
}
