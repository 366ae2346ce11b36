/* flash_attention: the gradients of a block of keys, over all queries that see it. */
#include "flash_attention_cpu_backward.h"

/* A worker's scratch. Tiles of queries are packed once for all tiles of keys of a block. */
typedef struct fa_gradients {
    const fa_backward *w;
    const fa_cut *cut;
    word *k, *k_stack, *v;       /* the block of keys */
    float *dk, *dv;              /* [slice][tiles * FA_KB][64] */
    word *q, *q_lanes, *q_stack; /* a tile of queries */
    word *dy, *dy_lanes, *dy_stack;
    float *p, *ds; /* words of queries */
    word *ds_keys; /* words of keys; the same as ds for floats */
    float *slope;  /* of the soft cap */
    int64_t block_rows;
} fa_gradients;

int64_t fa_gradient_words(int64_t d, int64_t e, int64_t tiles)
{
    const int64_t sd = fa_slices(d), se = fa_slices(e);
    return (sd + se) * (tiles + 2) * FA_ROWS_TILE + (sd + se) * tiles * FA_SUM_TILE +
           (sd * (tiles + 1) + se) * FA_STACK_TILE + 4 * FA_KB * FA_QB;
}

static fa_gradients fa_gradients_at(const fa_backward *w, const fa_cut *cut, word *scratch)
{
    const int64_t sd = fa_slices(w->n.d), se = fa_slices(w->n.e), tiles = cut->tiles;
    fa_gradients g = {.w = w, .cut = cut, .block_rows = tiles * FA_KB};
    g.k = scratch;
    g.v = g.k + sd * tiles * FA_ROWS_TILE;
    g.k_stack = g.v + se * tiles * FA_ROWS_TILE;
    g.dk = (float *)(g.k_stack + sd * tiles * FA_STACK_TILE);
    g.dv = g.dk + sd * tiles * FA_SUM_TILE;
    g.q = (word *)(g.dv + se * tiles * FA_SUM_TILE);
    g.q_lanes = g.q + sd * FA_ROWS_TILE;
    g.dy = g.q_lanes + sd * FA_ROWS_TILE;
    g.dy_lanes = g.dy + se * FA_ROWS_TILE;
    g.q_stack = g.dy_lanes + se * FA_ROWS_TILE;
    g.dy_stack = g.q_stack + sd * FA_STACK_TILE;
    g.p = (float *)(g.dy_stack + se * FA_STACK_TILE);
    g.ds = g.p + FA_KB * FA_QB;
    g.slope = g.ds + FA_KB * FA_QB;
    g.ds_keys = FA_PAIRS ? (word *)(g.slope + FA_KB * FA_QB) : (word *)g.ds;
    return g;
}

/* The tile of keys from k0 on, `at` rows behind the block's first, against the packed tile of
 * queries from q0 on of head h. rows: of these queries, `padded` apart. dq: [slice][padded][64]. */
static void fa_gradient_tile(const fa_gradients *g, const fa_tile *t, int64_t h, int64_t q0,
                             int64_t k0, int64_t at, const float *rows, float *dq)
{
    const fa_sizes *n = &g->w->n;
    const attention_sequence *s = &g->cut->of.at;
    const int64_t all = g->block_rows, padded = g->cut->padded;
    const int filled = fa_filled(t);
    float *slope = n->softcap != 0 ? g->slope : NULL;
    fa_kept drawn, *const kept = n->dropout.least ? &drawn : NULL;
    fa_scores(t, n->d, g->k + at * FA_W, all, g->q_lanes, n->scale, g->p);
    if (slope || n->bias.data)
        fa_change_scores(n, t, s->batch, h, s->query + q0, s->key + k0, g->p, slope);
    fa_scores(t, n->e, g->v + at * FA_W, all, g->dy_lanes, (float)n->dropout.factor, g->ds);
    if (kept)
        fa_draw(n, t, s, h, q0, k0, kept);
    for (int i = 0; i < t->nq; i += FA_NR)
        fa_softmax_gradient(t, i, filled, kept, g->p, g->ds, g->ds_keys, slope, rows, padded);
    const word *k_stack = FA_PAIRS ? g->k_stack + at / 2 * FA_SLICE : g->k + at * FA_W;
    fa_sum_queries(t, n->e, (const word *)g->p, FA_PAIRS ? g->dy_stack : g->dy,
                   g->dv + at * FA_SLICE, all);
    fa_sum_queries(t, n->d, (const word *)g->ds, FA_PAIRS ? g->q_stack : g->q,
                   g->dk + at * FA_SLICE, all);
    fa_sum_keys(t, n->d, g->ds_keys, k_stack, all, dq, padded);
}

/* A tile of queries in three layouts. Those that see no key are zero, whatever they hold. */
static void fa_pack_queries(const fa_gradients *g, const fa_view *view, int64_t d, int64_t h,
                            int64_t q0, int64_t nq, word *rows, word *lanes, word *stack)
{
    const el type = g->w->n.type;
    const attention_sequence *s = &g->cut->of.at;
    const int64_t padded = fa_round_up(nq, FA_NR), blind = fa_blind(&g->cut->of) - q0;
    fa_pack_rows(type, fa_at(view, type, s->batch, s->query + q0, h), view->row, nq, padded, d,
                 rows, FA_QB);
    if (blind > 0)
        fa_clear_rows(rows, 0, fa_min(blind, nq), d, FA_QB);
    fa_lanes(rows, nq, d, lanes);
    fa_stack(rows, stack, padded, d, FA_QB);
}

/* Adds one query head's part to dk, dv and dq. */
static void fa_backward_head(const fa_gradients *g, int64_t sequence, int64_t h, int64_t k0,
                             int64_t k1, float *dq)
{
    const fa_backward *w = g->w;
    const fa_sequence *s = &g->cut->of;
    const float *rows = fa_rows_at(w, sequence, h);
    const int64_t first = fa_max(0, k0 - s->hi + 1) / FA_QB * FA_QB;
    const int64_t end = fa_min(s->at.queries, k1 - s->lo);
    for (int64_t q0 = first; q0 < end; q0 += FA_QB) {
        const int64_t nq = fa_min(s->at.queries - q0, FA_QB);
        fa_pack_queries(g, &w->q, w->n.d, h, q0, nq, g->q, g->q_lanes, g->q_stack);
        fa_pack_queries(g, &w->dy, w->n.e, h, q0, nq, g->dy, g->dy_lanes, g->dy_stack);
        for (int64_t k = k0; k < k1; k += FA_KB) {
            const fa_tile t = fa_tile_of(s, q0, nq, k, fa_min(k1 - k, FA_KB));
            if (fa_is_seen(&t))
                fa_gradient_tile(g, &t, h, q0, k, k - k0, rows + q0, dq + q0 * FA_SLICE);
        }
    }
}

static void fa_store_keys(const fa_gradients *g, fa_owner owner, int64_t k0, int64_t k1)
{
    const fa_backward *w = g->w;
    const fa_sizes *n = &w->n;
    const attention_sequence *s = &g->cut->of.at;
    const int64_t step = g->block_rows * FA_SLICE, hk = owner.key_head;
    const float factor = (float)n->dropout.factor; /* of p, which dv is a sum of */
    float *part =
        w->dkv + g->cut->dkv + (hk * g->cut->shares + owner.share) * s->keys * (n->d + n->e);
    for (int64_t k = k0; k < k1; k++) {
        const float *dk = g->dk + (k - k0) * FA_SLICE, *dv = g->dv + (k - k0) * FA_SLICE;
        if (g->cut->shares == 1) {
            fa_store_row(n->type, fa_at(&w->dk, n->type, s->batch, s->key + k, hk), n->d, dk, step,
                         n->scale);
            fa_store_row(n->type, fa_at(&w->dv, n->type, s->batch, s->key + k, hk), n->e, dv, step,
                         factor);
        } else {
            fa_store_row(EL_F32, (char *)(part + k * n->d), n->d, dk, step, n->scale);
            fa_store_row(EL_F32, (char *)(part + s->keys * n->d + k * n->e), n->e, dv, step,
                         factor);
        }
    }
}

void fa_backward_keys(const fa_backward *w, word *scratch, fa_owner owner, int64_t k0, float *dq)
{
    const fa_sizes *n = &w->n;
    const fa_cut *cut = &w->cut[owner.sequence];
    const attention_sequence *s = &cut->of.at;
    const fa_gradients g = fa_gradients_at(w, cut, scratch);
    const int64_t k1 = fa_min(s->keys, k0 + g.block_rows), padded = fa_round_up(k1 - k0, FA_MR);
    const int64_t heads = w->group / cut->shares, hk = owner.key_head;
    fa_pack_rows(n->type, fa_at(&w->k, n->type, s->batch, s->key + k0, hk), w->k.row, k1 - k0,
                 padded, n->d, g.k, g.block_rows);
    fa_pack_rows(n->type, fa_at(&w->v, n->type, s->batch, s->key + k0, hk), w->v.row, k1 - k0,
                 padded, n->e, g.v, g.block_rows);
    fa_stack(g.k, g.k_stack, padded, n->d, g.block_rows);
    memset(g.dk, 0, (size_t)(fa_slices(n->d) * g.block_rows * FA_SLICE) * sizeof(float));
    memset(g.dv, 0, (size_t)(fa_slices(n->e) * g.block_rows * FA_SLICE) * sizeof(float));
    for (int64_t i = 0; i < heads; i++)
        fa_backward_head(&g, owner.sequence, hk * w->group + owner.share * heads + i, k0, k1,
                         dq + i * (cut->dq_size / heads));
    fa_store_keys(&g, owner, k0, k1);
}
