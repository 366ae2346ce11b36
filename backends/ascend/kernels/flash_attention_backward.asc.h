/* flash_attention_backward.asc.h - the backward kernel of one type; see asc_each_type.h. */
#include "asc_product.asc.h"

/* A block's slots in global memory, two of each; see flash_attention_backward.args.h. */
#define FLASH_WORK ASC_NAME(flash_work)
typedef struct FLASH_WORK {
    __gm__ float *s[2], *ds[2];
    __gm__ ASC_T *p[2], *dp[2];
} FLASH_WORK;

/* A tensor's first element, and its steps. */
#define FLASH_TENSOR ASC_NAME(flash_tensor)
typedef struct FLASH_TENSOR {
    __gm__ ASC_T *at;
    flash_strides of;
} FLASH_TENSOR;

static inline __aicore__ FLASH_TENSOR ASC_NAME(flash_tensor_of)(__gm__ ASC_T *at, int64_t batch,
                                                                int64_t row, int64_t head)
{
    FLASH_TENSOR t;
    t.at = at;
    t.of = flash_strides_of(batch, row, head);
    return t;
}

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

/* ---- the cube core ---- */

/* Of a tile of queries x, [rows, d], and the unit's keys y, the products of their rows. */
static inline __aicore__ void ASC_NAME(flash_score)(const flash_problem *f, asc_products *c,
                                                    const flash_step *s, const FLASH_TENSOR *x,
                                                    const FLASH_TENSOR *y, int64_t held,
                                                    __gm__ float *to)
{
    const int64_t n = flash_tile_keys(f, s, s->tile), rows = flash_tile_rows(f, s);
    __gm__ ASC_T *left = x->at + flash_at(x->of, s->batch, s->row + s->tile * 2 * f->half, s->head);
    __gm__ ASC_T *right = y->at + flash_at(y->of, s->batch, s->key, s->key_head);
    const asc_operand a = asc_operand_of(x->of.row, 0, f->d <= ASC_DEPTH ? held : -1);
    const asc_operand b = asc_operand_of(y->of.row, 0, -1);
    if (a.held >= 0)
        ASC_NAME(asc_hold)(left, &a, rows, f->d);
    for (int64_t at = 0; at < n; at += ASC_SIDE)
        ASC_NAME(asc_product)
    (c, left, &a, right + at * y->of.row, &b, rows, asc_min_of(ASC_SIDE, n - at), f->d, to + at,
     f->tile);
    if (a.held >= 0)
        ASC_NAME(asc_let_go)(&a);
}

/* The unit's part of dk or dv: weights, turned, times its queries x. Of a tile of keys those queries count that see it. */
static inline __aicore__ void ASC_NAME(flash_add_keys)(const flash_problem *f, asc_products *c,
                                                       const flash_step *s, __gm__ ASC_T *weights,
                                                       const FLASH_TENSOR *x, __gm__ float *to)
{
    const asc_operand a = asc_operand_of(f->tile, 1, -1), b = asc_operand_of(x->of.row, 1, -1);
    int64_t tile = 0;
    for (int64_t key = 0; key < s->keys; key += ASC_SIDE) {
        while (tile * 2 * f->half < s->rows && flash_tile_keys(f, s, tile) <= key)
            tile++;
        const int64_t row = tile * 2 * f->half;
        for (int64_t d = 0; d < f->d && row < s->rows; d += ASC_SIDE)
            ASC_NAME(asc_product)
        (c, weights + row * f->tile + key, &a,
         x->at + flash_at(x->of, s->batch, s->row + row, s->head) + d, &b,
         asc_min_of(ASC_SIDE, s->keys - key), asc_min_of(ASC_SIDE, f->d - d), s->rows - row,
         to + key * f->pitch + d, f->pitch);
    }
}

/* Its part of dq: weights times its keys. */
static inline __aicore__ void ASC_NAME(flash_add_queries)(const flash_problem *f, asc_products *c,
                                                          const flash_step *s,
                                                          __gm__ ASC_T *weights,
                                                          const FLASH_TENSOR *k, __gm__ float *to)
{
    const asc_operand a = asc_operand_of(f->tile, 0, -1), b = asc_operand_of(k->of.row, 1, -1);
    __gm__ ASC_T *keys = k->at + flash_at(k->of, s->batch, s->key, s->key_head);
    for (int64_t row = 0, tile = 0; row < s->rows; row += 2 * f->half, tile++) {
        const int64_t n = flash_tile_keys(f, s, tile);
        for (int64_t d = 0; d < f->d; d += ASC_SIDE)
            ASC_NAME(asc_product)
        (c, weights + row * f->tile, &a, keys + d, &b, asc_min_of(2 * f->half, s->rows - row),
         asc_min_of(ASC_SIDE, f->d - d), n, to + row * f->pitch + d, f->pitch);
    }
}

/* From here on copies out store what nothing has been added to yet, and else add. */
static inline __aicore__ void ASC_NAME(flash_store_or_add)(int store)
{
    if (store)
        asc_set_atomic_none();
    else
        asc_set_atomic_add_float();
}

/* What the unit adds to the gradients. The copies of the unit before have ended: each element is added to in the order of the units. */
static inline __aicore__ void ASC_NAME(flash_add)(const flash_problem *f, asc_products *c,
                                                  const flash_step *s, const FLASH_WORK *w,
                                                  const FLASH_TENSOR *q, const FLASH_TENSOR *k,
                                                  const FLASH_TENSOR *dy, __gm__ float *dq,
                                                  __gm__ float *dk, __gm__ float *dv)
{
    const int set = (int)(s->number % 2);
    const int64_t key_heads = f->heads / f->shared;
    const int64_t of_keys =
        (((s->key_part * f->batches + s->batch) * key_heads + s->key_head) * f->keys + s->key) *
        f->pitch;
    const int64_t of_queries =
        (((s->query_part * f->batches + s->batch) * f->heads + s->head) * f->queries + s->row) *
        f->pitch;
    asc_sync_pipe(PIPE_FIX);
    ASC_NAME(flash_store_or_add)(s->first_of_keys);
    ASC_NAME(flash_add_keys)(f, c, s, w->p[set], dy, dv + of_keys);
    ASC_NAME(flash_add_keys)(f, c, s, w->dp[set], q, dk + of_keys);
    ASC_NAME(flash_store_or_add)(s->first_of_queries);
    ASC_NAME(flash_add_queries)(f, c, s, w->dp[set], k, dq + of_queries);
    asc_set_atomic_none();
}

static inline __aicore__ void ASC_NAME(flash_multiply)(const flash_problem *f,
                                                       const flash_units *units,
                                                       const FLASH_WORK *w, const FLASH_TENSOR *q,
                                                       const FLASH_TENSOR *k, const FLASH_TENSOR *v,
                                                       const FLASH_TENSOR *dy, __gm__ float *dq,
                                                       __gm__ float *dk, __gm__ float *dv)
{
    const int64_t key_heads = f->heads / f->shared;
    asc_products c = asc_products_begin();
    flash_step here = flash_start(units, key_heads), ahead = here;
    for (int step = 0; here.unit < here.end; step++) {
        if (ahead.unit < ahead.end) {
            ASC_NAME(flash_score)(f, &c, &ahead, q, k, 0, w->s[step % 2]);
            ASC_NAME(flash_score)(f, &c, &ahead, dy, v, 1, w->ds[step % 2]);
            asc_sync_block_arrive(PIPE_FIX, FLASH_SCORED);
            flash_next(f, units, &ahead, key_heads);
        }
        if (step == 0)
            continue;
        asc_sync_block_wait(PIPE_S, FLASH_WEIGHED);
        if (flash_last_tile(f, &here)) {
            ASC_NAME(flash_add)(f, &c, &here, w, q, k, dy, dq, dk, dv);
            asc_sync_block_arrive(PIPE_FIX, FLASH_SUMMED);
        }
        flash_next(f, units, &here, key_heads);
    }
    asc_products_end();
}

/* ---- a vector core ---- */

/* Its places in UB; see flash_attention_backward.args.h. slot: the copies that are next. */
#define FLASH_UB ASC_NAME(flash_ub)
typedef struct FLASH_UB {
    int64_t s_at, ds_at, p_at, dp_at, lse_at, delta_at, shift_at, less_at, factor_at;
    int slot;
} FLASH_UB;

/* A block's two slots, and two numbers a query; at the first row that the core has of a tile. */
typedef struct ASC_NAME(flash_rows) {
    __gm__ float *s, *ds, *lse, *delta;
    __gm__ ASC_T *p, *dp;
    int64_t rows, n, width, seen;
} ASC_NAME(flash_rows);

static inline __aicore__ void ASC_NAME(flash_bring)(const flash_problem *f, const FLASH_UB *u,
                                                    int slot, const ASC_NAME(flash_rows) * r,
                                                    int64_t row)
{
    const int64_t rows = asc_min_of(f->group, r->rows - row), n = asc_round_up(r->n, 8);
    const uint8_t pad = (uint8_t)(n - r->n), lines = (uint8_t)(asc_round_up(rows, 8) - rows);
    const uint32_t bytes = (uint32_t)(4 * r->n), gap = (uint32_t)(4 * (f->tile - r->n)),
                   apart = (uint32_t)((r->width - n) / 8);
    ASC_WAIT(PIPE_V, PIPE_MTE2, slot);
    asc_copy_gm2ub_align(ASC_UB(float, u->s_at, slot), r->s + row * f->tile, (uint16_t)rows, bytes,
                         0, pad, gap, apart);
    asc_copy_gm2ub_align(ASC_UB(float, u->ds_at, slot), r->ds + row * f->tile, (uint16_t)rows,
                         bytes, 0, pad, gap, apart);
    asc_copy_gm2ub_align(ASC_UB(float, u->lse_at, slot), r->lse + row, 1, (uint32_t)(4 * rows), 0,
                         lines, 0, 0);
    asc_copy_gm2ub_align(ASC_UB(float, u->delta_at, slot), r->delta + row, 1, (uint32_t)(4 * rows),
                         0, lines, 0, 0);
    ASC_NOTIFY(PIPE_MTE2, PIPE_V, slot);
}

/* Of some rows, p = exp(scale s - lse) and p (dp - delta). A query that sees no key has an lse of -inf: it stays finite. */
static inline __aicore__ void ASC_NAME(flash_weigh)(const flash_problem *f, const FLASH_UB *u,
                                                    const ASC_NAME(flash_rows) * r, int64_t row)
{
    const int64_t rows = asc_min_of(f->group, r->rows - row), width = r->width;
    const int64_t seen = r->seen + (f->causal ? row : 0);
    const uint32_t n = (uint32_t)(rows * width), values = (uint32_t)asc_round_up(rows, 8);
    __ubuf__ float *s = ASC_UB(float, u->s_at, u->slot), *ds = ASC_UB(float, u->ds_at, u->slot);
    __ubuf__ ASC_T *p = ASC_UB(ASC_T, u->p_at, u->slot), *dp = ASC_UB(ASC_T, u->dp_at, u->slot);
    __ubuf__ float *lse = ASC_UB(float, u->lse_at, u->slot);
    __ubuf__ float *shift = ASC_UB(float, u->shift_at, 0), *less = ASC_UB(float, u->less_at, 0);
    FLASH_ALL_LANES();
    if (seen < width || r->n < width)
        flash_mask(s, rows, width, seen, f->causal, r->n,
                   f->negative ? -FLASH_NOTHING : FLASH_NOTHING);
    if (r->n < width)
        flash_mask(ds, rows, width, r->n, 0, r->n, 0.0f);
    asc_mul_scalar(lse, lse, -1.0f, values);
    ASC_THEN();
    asc_min_scalar(lse, lse, 3e38f, values);
    if (f->negative)
        asc_mul_scalar(s, s, -1.0f, n);
    ASC_THEN();
    asc_spread(shift, lse, rows);
    asc_spread(less, ASC_UB(float, u->delta_at, u->slot), rows);
    ASC_THEN();
    FLASH_ALL_LANES();
    flash_shift(s, ASC_UB(float, u->factor_at, 0), shift, rows, width);
    for (int64_t c = 0; c < width; c += ASC_LANES)
        asc_sub(ds + c, ds + c, less, (uint8_t)rows, 1, 1, 0, (uint8_t)(width / 8),
                (uint8_t)(width / 8), 1);
    ASC_WAIT(PIPE_MTE3, PIPE_V, u->slot);
    ASC_THEN();
#if ASC_16BIT
    asc_exp(s, s, n);
    ASC_THEN();
    ASC_NARROW(p, s, n);
    asc_mul(ds, ds, s, n);
    ASC_THEN();
    ASC_NARROW(dp, ds, n);
#else
    asc_exp(p, s, n);
    ASC_THEN();
    asc_mul(dp, ds, p, n);
#endif
    ASC_NOTIFY(PIPE_V, PIPE_MTE2, u->slot);
    ASC_NOTIFY(PIPE_V, PIPE_MTE3, u->slot);
    ASC_WAIT(PIPE_V, PIPE_MTE3, u->slot);
}

static inline __aicore__ void ASC_NAME(flash_send)(const flash_problem *f, const FLASH_UB *u,
                                                   const ASC_NAME(flash_rows) * r, int64_t row)
{
    const int64_t rows = asc_min_of(f->group, r->rows - row), size = (int64_t)sizeof(ASC_T);
    const uint32_t gap = (uint32_t)((f->tile - r->n) * size);
    const uint32_t apart = (uint32_t)((r->width - asc_round_up(r->n, 32 / size)) * size / 32);
    asc_copy_ub2gm_align(r->p + row * f->tile, ASC_UB(ASC_T, u->p_at, u->slot), (uint16_t)rows,
                         (uint32_t)(r->n * size), 0, 0, apart, gap);
    asc_copy_ub2gm_align(r->dp + row * f->tile, ASC_UB(ASC_T, u->dp_at, u->slot), (uint16_t)rows,
                         (uint32_t)(r->n * size), 0, 0, apart, gap);
    ASC_NOTIFY(PIPE_MTE3, PIPE_V, u->slot);
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
    const int64_t rows = flash_tile_rows(f, s), upper = (rows + 1) / 2;
    const int64_t first = asc_get_sub_block_id() ? upper : 0,
                  in_unit = s->tile * 2 * f->half + first;
    const int64_t query = (s->batch * f->heads + s->head) * f->queries + s->row + in_unit;
    r.s = w->s[step % 2] + first * f->tile;
    r.ds = w->ds[step % 2] + first * f->tile;
    r.p = w->p[s->number % 2] + in_unit * f->tile;
    r.dp = w->dp[s->number % 2] + in_unit * f->tile;
    r.lse = lse + query;
    r.delta = delta + query;
    r.rows = first ? rows - upper : upper;
    r.n = flash_tile_keys(f, s, s->tile);
    r.width = asc_round_up(r.n, ASC_LANES);
    r.seen = flash_seen(f, s->row + in_unit) - s->key;
    return r;
}

static inline __aicore__ void ASC_NAME(flash_weigh_all)(const flash_problem *f,
                                                        const flash_units *units, FLASH_UB *u,
                                                        const FLASH_WORK *w, __gm__ float *lse,
                                                        __gm__ float *delta)
{
    const int64_t key_heads = f->heads / f->shared;
    flash_step here = flash_start(units, key_heads);
    asc_pipeline_begin();
    asc_duplicate(ASC_UB(float, u->factor_at, 0), f->scale, 8);
    ASC_THEN();
    for (int step = 0; here.unit < here.end; step++) {
        if (here.tile == 0 && here.number >= 2)
            asc_sync_block_wait(PIPE_S, FLASH_SUMMED);
        asc_sync_block_wait(PIPE_S, FLASH_SCORED);
        const ASC_NAME(flash_rows) r = ASC_NAME(flash_rows_at)(f, w, &here, step, lse, delta);
        ASC_NAME(flash_weigh_tile)(f, u, &r);
        asc_sync_block_arrive(PIPE_MTE3, FLASH_WEIGHED);
        flash_next(f, units, &here, key_heads);
    }
    for (int64_t left = asc_min_of(here.number, 2); left > 0; left--)
        asc_sync_block_wait(PIPE_S, FLASH_SUMMED);
    asc_pipeline_end();
}

ASC_MIX_KERNEL ASC_NAME(flash_attention_backward)(ASC_PARAMS(FLASH_ATTENTION_BACKWARD),
                                                  uint64_t sync)
{
    asc_set_ffts_base_addr(sync);
    asc_init();
    flash_problem f;
    f.batches = batches;
    f.heads = key_heads * shared;
    f.shared = shared;
    f.queries = queries;
    f.keys = all_keys;
    f.d = d;
    f.causal = causal;
    f.negative = negative;
    f.scale = asc_f32(scale);
    f.half = core_rows;
    f.tile = keys;
    f.group = group;
    f.pitch = asc_round_up(d, ASC_LANES);
    const flash_units units = flash_units_of(batches * key_heads, shared, queries, all_keys, causal,
                                             2 * core_rows, keys, asc_get_block_num());
    const FLASH_WORK w = ASC_NAME(flash_work_of)(&f, work + asc_get_block_idx() * work_block);
    if ASC_IS_AIC {
        const FLASH_TENSOR of_q = ASC_NAME(flash_tensor_of)(q, q_batch, q_row, q_head);
        const FLASH_TENSOR of_k = ASC_NAME(flash_tensor_of)(k, k_batch, k_row, k_head);
        const FLASH_TENSOR of_v = ASC_NAME(flash_tensor_of)(v, v_batch, v_row, v_head);
        const FLASH_TENSOR of_dy = ASC_NAME(flash_tensor_of)(dy, dy_batch, dy_row, dy_head);
        ASC_NAME(flash_multiply)(&f, &units, &w, &of_q, &of_k, &of_v, &of_dy, dq, dk, dv);
    } else {
        FLASH_UB u = {s_at, ds_at, p_at, dp_at, lse_at, delta_at, shift_at, less_at, factor_at, 0};
        ASC_NAME(flash_weigh_all)(&f, &units, &u, &w, lse, delta);
    }
}

#undef FLASH_UB
#undef FLASH_WORK
#undef FLASH_TENSOR
#undef ASC_DEPTH
