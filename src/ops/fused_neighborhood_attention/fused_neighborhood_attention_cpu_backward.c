/* fused_neighborhood_attention on the CPU: backward. The band again from q, k and lse, then
 * all three gradients.
 *
 * A task owns the gradients of its positions. dk and dv of a key are complete when all queries that
 * see it have been there, so the task walks over half a window more than its own on either side.
 */
#include "fused_neighborhood_attention_cpu.h"

typedef struct na_backward {
    na_sizes n;
    na_view q, k, v, dy, dq, dk, dv;
    const float *lse; /* [B,H,S] */
    float *scratch;
    int64_t scratch_size; /* floats a worker */
} na_backward;

SIMD_INLINE int64_t na_backward_floats(const na_sizes *n)
{
    return n->panels * VL * (2 * NA_TILE + 4 * n->window) + 2 * na_band(n->width);
}

/* p: products q k become p = exp(score - lse); dp: products dy v become
 * ds = scale p (dp - sum of p dp). */
SIMD_INLINE void na_softmax_gradient(const na_sizes *n, const na_tile *t, const float *lse,
                                     float *p, float *dp)
{
    for (int lane = 0; lane < NA_TILE; lane += VL) {
        const vf shift = v_load(EL_F32, lse, lane);
        vf mean = v_set(0.0f);
        for (int64_t place = t->first; place < t->last; place++) {
            const int64_t at = place * NA_TILE + lane;
            const vf power = v_exp_normal(na_score(n, t, p, place, lane) - shift);
            v_store(EL_F32, p, at, power);
            mean += power * v_load(EL_F32, dp, at);
        }
        for (int64_t place = t->first; place < t->last; place++) {
            const int64_t at = place * NA_TILE + lane;
            const vf centred = v_load(EL_F32, dp, at) - mean;
            v_store(EL_F32, dp, at, v_load(EL_F32, p, at) * centred * v_set(n->scale));
        }
    }
}

SIMD_INLINE void na_load_lse(const na_backward *w, const na_sequence *s, const na_tile *t,
                             float *lse)
{
    for (int64_t i = 0; i < NA_TILE; i++) {
        const float saved = i < t->count ? w->lse[na_place(&w->n, s, t->query + i)] : 0.0f;
        lse[i] = saved == -INFINITY ? INFINITY : saved; /* makes p = 0 */
    }
}

/* Adds to the rows that earlier queries have seen, the first `have`, and begins the others. In
 * pairs of rows, of which the first may be another task's: it is not stored. */
SIMD_INLINE void na_sum_own(const na_sizes *n, const na_tile *t, const float *band,
                            const float *tile, float *window, int64_t have, int64_t low,
                            int64_t high)
{
    const int64_t even = low & ~(int64_t)1;
    na_sum_queries(n, t, band, tile, window, 1, even, na_min(have, high));
    na_sum_queries(n, t, band, tile, window, 0, na_max(have, even), high);
}

static void na_backward_task(const na_backward *f, const na_sequence *s, float *scratch)
{
    const na_sizes *n = &f->n;
    const int64_t tile = NA_TILE * n->panels * VL, bands = na_band(n->width);
    float *q = scratch, *dy = q + tile, *p = dy + tile, *ds = p + bands;
    float lse[NA_TILE];
    na_window w = na_window_begin(4, ds + bands);
    const int64_t end = na_min(s->length, s->end + n->half);
    for (int64_t i = na_max(0, s->begin - n->half); i < end; i += NA_TILE) {
        const na_tile t = na_tile_at(n, s, i, end);
        na_load_rows(n, &f->q, s, i, NA_TILE, q, NA_TILE);
        na_load_rows(n, &f->dy, s, i, NA_TILE, dy, NA_TILE);
        na_load_lse(f, s, &t, lse);
        const int64_t have = na_window_move(n, &w), key = i - n->half;
        const int64_t fresh = n->width - 1 + NA_TILE - have;
        float *k = na_window_of(n, &w, 0), *v = na_window_of(n, &w, 1);
        float *dk = na_window_of(n, &w, 2), *dv = na_window_of(n, &w, 3);
        na_load_rows(n, &f->k, s, key + have, fresh, k + have * VL, n->window);
        na_load_rows(n, &f->v, s, key + have, fresh, v + have * VL, n->window);

        const na_ahead ahead[] = {na_ahead_of(n, &f->q, s, i + NA_TILE),
                                  na_ahead_of(n, &f->k, s, i + NA_TILE + n->half),
                                  na_ahead_of(n, &f->dq, s, i),
                                  na_ahead_of(n, &f->dy, s, i + NA_TILE),
                                  na_ahead_of(n, &f->v, s, i + NA_TILE + n->half),
                                  na_ahead_of(n, &f->dk, s, key),
                                  na_ahead_of(n, &f->dv, s, key)};
        na_products(n, &t, q, k, p, ahead, 3);
        na_products(n, &t, dy, v, ds, ahead + 3, 4);
        na_softmax_gradient(n, &t, lse, p, ds);

        /* own keys that these queries see; those behind which no query follows are complete */
        const int64_t low = na_max(0, s->begin - key);
        const int64_t high = na_min(t.count + n->width - 1, s->end - key);
        const int64_t done = i + NA_TILE < end ? na_min(high, NA_TILE) : high;
        na_sum_own(n, &t, ds, q, dk, have, low, high);
        na_sum_own(n, &t, p, dy, dv, have, low, high);
        na_store_rows(n, &f->dk, s, key + low, done - low, dk + low * VL, n->window);
        na_store_rows(n, &f->dv, s, key + low, done - low, dv + low * VL, n->window);

        const int64_t first = na_max(0, s->begin - i), last = na_min(t.count, s->end - i);
        if (first < last) { /* in pairs, to row 15 at most; dq takes the place of q */
            na_sum_keys(n, &t, ds, k, q, first & ~(int64_t)1, last);
            na_store_rows(n, &f->dq, s, i + first, last - first, q + first * VL, NA_TILE);
        }
    }
}

static void na_backward_tasks(void *arg, int64_t begin, int64_t end, int worker)
{
    const na_backward *f = arg;
    for (int64_t task = begin; task < end; task++) {
        const na_sequence s = na_sequence_of(&f->n, task);
        if (s.begin < s.end)
            na_backward_task(f, &s, f->scratch + worker * f->scratch_size);
    }
}

static tg_status backward(tg_ctx *ctx, const tg_fused_neighborhood_attention_backward_args *a)
{
    na_backward w = {.n = na_sizes_of(a->q, a->kernel_size, a->dilation, a->scale),
                     .q = na_view_of(a->q),
                     .k = na_view_of(a->k),
                     .v = na_view_of(a->v),
                     .dy = na_view_of(a->dy),
                     .dq = na_view_of(a->dq),
                     .dk = na_view_of(a->dk),
                     .dv = na_view_of(a->dv),
                     .lse = tg_data(a->lse)};
    w.scratch_size = na_backward_floats(&w.n);
    w.scratch = tg_workspace(ctx, (size_t)(tg_ctx_threads(ctx) * w.scratch_size) * sizeof(float));
    if (!w.scratch)
        return TG_ENOMEM;
    tg_parallel_for(ctx, na_tasks(&w.n), na_grain(&w.n, 5), na_backward_tasks, &w);
    return TG_OK;
}

TG_CPU_IMPLS(fused_neighborhood_attention_backward) = {
    TG_CPU_IMPL(fused_neighborhood_attention_backward, backward), TG_IMPLS_END};
