/* flash_attention on the CPU: backward, and how its tiles are cut into tasks.
 *
 * A task owns some blocks of keys of one key head and a share of the query heads that read it. Its
 * sums over queries (dk, dv) are complete for those heads; its sums over keys (dq) are partial if
 * the keys of a head are shared among tasks. All partial sums are added in the order of the tasks.
 */
#include "flash_attention_cpu.h"

/* ---- one tile of queries by keys ---- */

/* A worker's scratch. Tiles of queries are packed once for all tiles of keys of a block. */
typedef struct fa_gradients {
    word *k, *k_stack, *v;       /* the block of keys */
    float *dk, *dv;              /* [slice][tiles * FA_KB][64] */
    word *q, *q_lanes, *q_stack; /* a tile of queries */
    word *dy, *dy_lanes, *dy_stack;
    float *p, *ds; /* words of queries */
    word *ds_keys; /* words of keys; the same as ds for floats */
    int64_t block_rows;
} fa_gradients;

SIMD_INLINE int64_t fa_gradients_words(int64_t d, int64_t tiles)
{
    const int64_t s = fa_slices(d);
    return s * (2 * tiles * (FA_ROWS_TILE + FA_SUM_TILE) + tiles * FA_STACK_TILE) +
           s * (4 * FA_ROWS_TILE + 2 * FA_STACK_TILE) + 3 * FA_KB * FA_QB;
}

static fa_gradients fa_gradients_at(word *scratch, int64_t d, int64_t tiles)
{
    const int64_t rows = fa_slices(d) * FA_ROWS_TILE, stack = fa_slices(d) * FA_STACK_TILE;
    const int64_t sums = fa_slices(d) * FA_SUM_TILE;
    fa_gradients g = {.block_rows = tiles * FA_KB};
    g.k = scratch;
    g.v = g.k + tiles * rows;
    g.k_stack = g.v + tiles * rows;
    g.dk = (float *)(g.k_stack + tiles * stack);
    g.dv = g.dk + tiles * sums;
    g.q = (word *)(g.dv + tiles * sums);
    g.q_lanes = g.q + rows;
    g.dy = g.q_lanes + rows;
    g.dy_lanes = g.dy + rows;
    g.q_stack = g.dy_lanes + rows;
    g.dy_stack = g.q_stack + stack;
    g.p = (float *)(g.dy_stack + stack);
    g.ds = g.p + FA_KB * FA_QB;
    g.ds_keys = FA_PAIRS ? (word *)(g.ds + FA_KB * FA_QB) : (word *)g.ds;
    return g;
}

/* Tile `tile` of the block of keys against the packed tile of queries. rows: lse, and `padded`
 * floats further the sums over d of dy y. dq: [slice][padded][64]. */
static void fa_gradient_tile(const fa_tile *t, const fa_sizes *n, const fa_gradients *g,
                             int64_t tile, const float *rows, int64_t padded, float *dq)
{
    const int64_t d = n->d, at = tile * FA_KB, all = g->block_rows;
    const int filled = fa_filled(t);
    fa_scores(t, d, g->k + at * FA_W, all, g->q_lanes, n->scale, g->p);
    fa_scores(t, d, g->v + at * FA_W, all, g->dy_lanes, 1.0f, g->ds);
    for (int i = 0; i < t->nq; i += FA_NR)
        fa_softmax_gradient(t, i, filled, g->p, g->ds, g->ds_keys, rows, padded);
    const word *k_stack = FA_PAIRS ? g->k_stack + at / 2 * FA_SLICE : g->k + at * FA_W;
    fa_sum_queries(t, d, (const word *)g->p, FA_PAIRS ? g->dy_stack : g->dy, g->dv + at * FA_SLICE,
                   all);
    fa_sum_queries(t, d, (const word *)g->ds, FA_PAIRS ? g->q_stack : g->q, g->dk + at * FA_SLICE,
                   all);
    fa_sum_keys(t, d, g->ds_keys, k_stack, all, dq, padded);
}

typedef struct fa_backward {
    fa_sizes n;
    fa_view q, k, v, y, dy, dq, dk, dv;
    const float *lse;      /* [B,Hq,S] */
    int64_t padded;        /* S rounded up to FA_QB */
    float *rows;           /* [B,Hq,2,padded]: lse, and sum over d of dy y */
    int64_t group, shares; /* query heads of a key head; tasks that share them, 1 or group */
    int64_t tiles;         /* tiles of keys in a block */
    int64_t chunks;        /* tasks that share the keys of a head */
    float *dq_sums;        /* one dq_size for each task or, if chunks is 1, for each worker */
    int64_t dq_size;       /* [group / shares][slice][padded][64] */
    float *dkv;            /* [B,Hk,shares,2,L,D], if shares is not 1 */
    char *scratch;
    int64_t scratch_size;
} fa_backward;

/* ---- before: one pass over y and dy ---- */

/* Sum over d of dy y. Level v4bf16 multiplies pairs here too: a subnormal y, the sum of subnormal
 * v, must count as 0 where dy v takes them as 0, or their difference is neither's. */
SIMD_INLINE float fa_product(el e, const char *y, const char *dy, int64_t d)
{
    vf sum = v_set(0.0f);
#if FA_PAIRS
    (void)e; /* bf16 */
    for (int64_t c = 0; c < d; c += 2 * VL) {
        vi a = v_seti(0), b = v_seti(0);
        const size_t bytes = (size_t)fa_min(d - c, 2 * VL) * 2;
        memcpy(&a, y + 2 * c, bytes == sizeof a ? sizeof a : bytes);
        memcpy(&b, dy + 2 * c, bytes == sizeof b ? sizeof b : bytes);
        sum = v_dot_bf16(sum, a, b);
    }
#else
    int64_t c = 0;
    for (; c + VL <= d; c += VL)
        sum += v_load(e, y, c) * v_load(e, dy, c);
    if (c < d)
        sum += v_load_n(e, y, c, d - c, 0.0f) * v_load_n(e, dy, c, d - c, 0.0f);
#endif
    return v_sum(sum);
}

SIMD_INLINE void fa_product_rows(el e, const fa_backward *w, int64_t b, int64_t h, int64_t q0,
                                 float *lse, float *products)
{
    const int64_t d = w->n.d;
    for (int64_t i = 0; i < FA_QB; i++) {
        lse[i] = INFINITY; /* makes p = 0, for queries past the end and for those that see no key */
        products[i] = 0.0f;
        if (q0 + i >= w->n.queries)
            continue;
        const float saved = w->lse[(b * w->n.heads + h) * w->n.queries + q0 + i];
        if (saved != -INFINITY)
            lse[i] = saved;
        const char *y = fa_at(&w->y, e, b, q0 + i, h), *dy = fa_at(&w->dy, e, b, q0 + i, h);
        products[i] = fa_product(e, y, dy, d);
    }
}

static void fa_prepare_tasks(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const fa_backward *w = arg;
    const int64_t blocks = w->padded / FA_QB;
    for (int64_t task = begin; task < end; task++) {
        const int64_t head = task / blocks, q0 = task % blocks * FA_QB;
        float *lse = w->rows + head * 2 * w->padded + q0;
        EL_SPECIALIZE(w->n.type, fa_product_rows, w, head / w->n.heads, head % w->n.heads, q0, lse,
                      lse + w->padded);
    }
}

/* ---- a block of keys ---- */

static void fa_pack_queries(const fa_sizes *n, const fa_view *q, int64_t b, int64_t h, int64_t q0,
                            int64_t nq, word *rows, word *lanes, word *stack)
{
    fa_pack_rows(n->type, fa_at(q, n->type, b, q0, h), q->row, nq, fa_round_up(nq, FA_NR), n->d,
                 rows, FA_QB);
    fa_lanes(rows, nq, n->d, lanes);
    fa_stack(rows, stack, fa_round_up(nq, FA_NR), n->d, FA_QB);
}

/* Adds one query head's part to dk, dv and dq. */
static void fa_backward_head(const fa_backward *w, const fa_gradients *g, int64_t b, int64_t h,
                             int64_t k0, int64_t k1, float *dq)
{
    const fa_sizes *n = &w->n;
    const int64_t offset = n->keys - n->queries;
    const float *rows = w->rows + (b * n->heads + h) * 2 * w->padded;
    const int64_t first = n->causal ? fa_max(0, k0 - offset) / FA_QB * FA_QB : 0;
    for (int64_t q0 = first; q0 < n->queries; q0 += FA_QB) {
        const int64_t nq = fa_min(n->queries - q0, FA_QB);
        fa_pack_queries(n, &w->q, b, h, q0, nq, g->q, g->q_lanes, g->q_stack);
        fa_pack_queries(n, &w->dy, b, h, q0, nq, g->dy, g->dy_lanes, g->dy_stack);
        for (int64_t k = k0, tile = 0; k < k1; k += FA_KB, tile++) {
            const fa_tile t = fa_tile_of(q0, nq, k, fa_min(k1 - k, FA_KB), n->causal, offset);
            if (fa_keys(&t, t.nq - 1) > 0)
                fa_gradient_tile(&t, n, g, tile, rows + q0, w->padded, dq + q0 * FA_SLICE);
        }
    }
}

static void fa_store_keys(const fa_backward *w, const fa_gradients *g, int64_t b, int64_t hk,
                          int64_t share, int64_t k0, int64_t k1)
{
    const fa_sizes *n = &w->n;
    const int64_t step = g->block_rows * FA_SLICE, rows = n->keys * n->d;
    const int64_t place = ((b * n->key_heads + hk) * w->shares + share) * 2 * rows;
    for (int64_t k = k0; k < k1; k++) {
        const float *dk = g->dk + (k - k0) * FA_SLICE, *dv = g->dv + (k - k0) * FA_SLICE;
        if (w->shares == 1) {
            fa_store_row(n->type, fa_at(&w->dk, n->type, b, k, hk), n->d, dk, step, n->scale);
            fa_store_row(n->type, fa_at(&w->dv, n->type, b, k, hk), n->d, dv, step, 1.0f);
        } else {
            float *part = w->dkv + place + k * n->d;
            fa_store_row(EL_F32, (char *)part, n->d, dk, step, n->scale);
            fa_store_row(EL_F32, (char *)(part + rows), n->d, dv, step, 1.0f);
        }
    }
}

static void fa_backward_keys(const fa_backward *w, const fa_gradients *g, int64_t b, int64_t hk,
                             int64_t share, int64_t k0, float *dq)
{
    const fa_sizes *n = &w->n;
    const int64_t k1 = fa_min(n->keys, k0 + g->block_rows), padded = fa_round_up(k1 - k0, FA_MR);
    const int64_t heads = w->group / w->shares;
    fa_pack_rows(n->type, fa_at(&w->k, n->type, b, k0, hk), w->k.row, k1 - k0, padded, n->d, g->k,
                 g->block_rows);
    fa_pack_rows(n->type, fa_at(&w->v, n->type, b, k0, hk), w->v.row, k1 - k0, padded, n->d, g->v,
                 g->block_rows);
    fa_stack(g->k, g->k_stack, padded, n->d, g->block_rows);
    memset(g->dk, 0, (size_t)(2 * fa_slices(n->d) * g->block_rows * FA_SLICE) * sizeof(float));
    for (int64_t i = 0; i < heads; i++)
        fa_backward_head(w, g, b, hk * w->group + share * heads + i, k0, k1,
                         dq + i * (w->dq_size / heads));
    fa_store_keys(w, g, b, hk, share, k0, k1);
}

/* ---- tasks ---- */

/* Row q of dq of one head: the sum of the chunks' parts, dq_size floats apart. */
static void fa_store_queries(const fa_backward *w, int64_t b, int64_t h, int64_t q0, int64_t q1,
                             float *dq)
{
    const fa_sizes *n = &w->n;
    for (int64_t s = 0; s < fa_slices(n->d); s++)
        for (int64_t c = 1; c < w->chunks; c++) {
            float *sum = dq + s * w->padded * FA_SLICE, *part = sum + c * w->dq_size;
            for (int64_t i = q0 * FA_SLICE; i < q1 * FA_SLICE; i += VL)
                *(vf_mem *)(sum + i) += *(const vf_mem *)(part + i);
        }
    for (int64_t q = q0; q < q1; q++)
        fa_store_row(n->type, fa_at(&w->dq, n->type, b, q, h), n->d, dq + q * FA_SLICE,
                     w->padded * FA_SLICE, n->scale);
}

static void fa_backward_task(const fa_backward *w, int64_t task, int worker)
{
    const fa_sizes *n = &w->n;
    const int64_t chunk = task % w->chunks, owner = task / w->chunks;
    const int64_t share = owner % w->shares, hk = owner / w->shares % n->key_heads;
    const int64_t b = owner / w->shares / n->key_heads, heads = w->group / w->shares;
    const fa_gradients g =
        fa_gradients_at((word *)(w->scratch + worker * w->scratch_size), n->d, w->tiles);
    float *dq = w->dq_sums + (w->chunks == 1 ? worker : task) * w->dq_size;
    memset(dq, 0, (size_t)w->dq_size * sizeof *dq);
    /* blocks are dealt to and fro, since under a causal mask earlier keys cost more */
    const int64_t blocks = (n->keys + g.block_rows - 1) / g.block_rows;
    for (int64_t i = 0; i < blocks; i++) {
        const int64_t turn = i / w->chunks, place = i % w->chunks;
        if ((turn % 2 ? w->chunks - 1 - place : place) == chunk)
            fa_backward_keys(w, &g, b, hk, share, i * g.block_rows, dq);
    }
    for (int64_t i = 0; i < heads && w->chunks == 1; i++)
        fa_store_queries(w, b, hk * w->group + share * heads + i, 0, n->queries,
                         dq + i * (w->dq_size / heads));
}

static void fa_backward_tasks(void *arg, int64_t begin, int64_t end, int worker)
{
    tiles_open();
    for (int64_t task = begin; task < end; task++)
        fa_backward_task(arg, task, worker);
    tiles_close();
}

/* dq of blocks of queries, from the parts of all chunks */
static void fa_add_dq_tasks(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const fa_backward *w = arg;
    const int64_t blocks = w->padded / FA_QB, heads = w->group / w->shares;
    for (int64_t task = begin; task < end; task++) {
        const int64_t head = task / blocks, q0 = task % blocks * FA_QB;
        float *dq = w->dq_sums + head / heads * w->chunks * w->dq_size +
                    head % heads * (w->dq_size / heads);
        fa_store_queries(w, head / w->n.heads, head % w->n.heads, q0,
                         fa_min(w->n.queries, q0 + FA_QB), dq);
    }
}

/* dk and dv of rows of keys, from the parts of all query heads */
SIMD_INLINE void fa_add_dkv_row(el e, const fa_backward *w, const float *part, char *to)
{
    const int64_t d = w->n.d, step = 2 * w->n.keys * d;
    for (int64_t c = 0; c < d; c += VL) {
        const int64_t left = fa_min(VL, d - c);
        vf sum = v_set(0.0f);
        for (int64_t share = 0; share < w->shares; share++)
            sum += v_load_n(EL_F32, part + share * step, c, left, 0.0f);
        v_store_n(e, to, c, left, sum);
    }
}

static void fa_add_dkv_tasks(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const fa_backward *w = arg;
    const fa_sizes *n = &w->n;
    for (int64_t row = begin; row < end; row++) {
        const int64_t head = row / n->keys, k = row % n->keys;
        const int64_t b = head / n->key_heads, hk = head % n->key_heads;
        const float *part = w->dkv + (head * w->shares * 2 * n->keys + k) * n->d;
        EL_SPECIALIZE(n->type, fa_add_dkv_row, w, part, fa_at(&w->dk, n->type, b, k, hk));
        EL_SPECIALIZE(n->type, fa_add_dkv_row, w, part + n->keys * n->d,
                      fa_at(&w->dv, n->type, b, k, hk));
    }
}

/* ---- calls ---- */

enum { LEAST_TASKS = 8 };

/* How the work is cut, by sizes alone. */
static void cut(fa_backward *w)
{
    const fa_sizes *n = &w->n;
    w->group = n->heads / n->key_heads;
    w->shares = n->batch * n->key_heads < LEAST_TASKS ? w->group : 1;
    const int64_t owners = n->batch * n->key_heads * w->shares;
    const int64_t wanted = (LEAST_TASKS + owners - 1) / owners;
    const int64_t tiles = (n->keys + FA_KB - 1) / FA_KB;
    w->tiles = fa_max(1, fa_min(tiles, wanted > 1 ? 2 : 4));
    w->chunks = fa_max(1, fa_min(wanted, (tiles + w->tiles - 1) / w->tiles));
    w->padded = fa_round_up(n->queries, FA_QB);
    w->dq_size = w->group / w->shares * fa_slices(n->d) * w->padded * FA_SLICE;
}

static tg_status allocate(tg_ctx *ctx, fa_backward *w)
{
    const fa_sizes *n = &w->n;
    const int64_t owners = n->batch * n->key_heads * w->shares;
    const int64_t parts = w->chunks == 1 ? tg_ctx_threads(ctx) : owners * w->chunks;
    w->rows = tg_workspace(ctx, (size_t)(n->batch * n->heads * 2 * w->padded) * sizeof(float));
    w->dq_sums = w->rows ? tg_workspace(ctx, (size_t)(parts * w->dq_size) * sizeof(float)) : NULL;
    if (!w->dq_sums)
        return TG_ENOMEM;
    if (w->shares > 1) {
        w->dkv = tg_workspace(ctx, (size_t)(owners * 2 * n->keys * n->d) * sizeof(float));
        if (!w->dkv)
            return TG_ENOMEM;
    }
    w->scratch = fa_scratch(ctx, fa_gradients_words(n->d, w->tiles), &w->scratch_size);
    return w->scratch ? TG_OK : TG_ENOMEM;
}

static tg_status backward(tg_ctx *ctx, const tg_flash_attention_backward_args *a)
{
    fa_backward w = {.n = fa_sizes_of(a->q, a->k, a->scale, a->causal),
                     .q = fa_view_of(a->q),
                     .k = fa_view_of(a->k),
                     .v = fa_view_of(a->v),
                     .y = fa_view_of(a->y),
                     .dy = fa_view_of(a->dy),
                     .dq = fa_view_of(a->dq),
                     .dk = fa_view_of(a->dk),
                     .dv = fa_view_of(a->dv),
                     .lse = tg_data(a->lse)};
    const fa_sizes *n = &w.n;
    if (n->batch * n->key_heads == 0)
        return TG_OK;
    cut(&w);
    TG_TRY(allocate(ctx, &w));
    const int64_t owners = n->batch * n->key_heads * w.shares;
    const int64_t heads = n->batch * n->heads, blocks = w.padded / FA_QB;
    const int64_t products = w.group / w.shares * n->queries * n->keys * n->d / w.chunks;
    tg_parallel_for(ctx, heads * blocks, fa_grain(FA_QB * n->d * 8), fa_prepare_tasks, &w);
    tg_parallel_for(ctx, owners * w.chunks, fa_grain(5 * products), fa_backward_tasks, &w);
    if (w.chunks > 1)
        tg_parallel_for(ctx, heads * blocks, fa_grain(FA_QB * n->d * w.chunks * 8), fa_add_dq_tasks,
                        &w);
    if (w.shares > 1)
        tg_parallel_for(ctx, n->batch * n->key_heads * n->keys, fa_grain(n->d * w.shares * 8),
                        fa_add_dkv_tasks, &w);
    return TG_OK;
}

TG_CPU_IMPLS(flash_attention_backward) = {
    TG_CPU_IMPL_IF(flash_attention_backward, FA_TAKES, NULL, backward), TG_IMPLS_END};
