/* fused_neighborhood_attention on the CPU: forward. Tiles of 16 queries and the band beside them,
 * in f32 scratch that stays in the nearest caches: scores, softmax, y, tile by tile.
 */
#include <float.h>

#include "fused_neighborhood_attention_cpu.h"

typedef struct na_forward {
    na_sizes n;
    na_view q, k, v, y;
    float *lse; /* [B,H,S] or NULL */
    float *scratch;
    int64_t scratch_size; /* floats a worker */
} na_forward;

SIMD_INLINE int64_t na_forward_floats(const na_sizes *n)
{
    return n->panels * VL * (NA_TILE + 2 * n->window) + na_band(n->width);
}

/* log(x) of 1 or more, or NaN; within 2 ulp. With x = 2^e m, m in [sqrt(1/2), sqrt(2)), and
 * s = (m - 1) / (m + 1), log(m) = 2 artanh(s) = 2 (s + s^3 / 3 + s^5 / 5 + ...), |s| < 0.172. */
SIMD_INLINE vf na_log(vf x)
{
    const vi root = v_seti(0x3f3504f3); /* sqrt(1/2) */
    const vi above = (vi)x - root, e = above >> 23;
    const vf m = (vf)((above & 0x7fffff) + root), n = __builtin_convertvector(e, vf);
    const vf s = (m - v_set(1.0f)) / (m + v_set(1.0f)), z = s * s;
    vf q = z * v_set(1.0f / 9) + v_set(1.0f / 7);
    q = q * z + v_set(1.0f / 5);
    q = q * z + v_set(1.0f / 3);
    const vf tail = q * z * (s + s) + n * v_set(1.428606765330187e-06f); /* ln 2 in two parts */
    return n * v_set(0.693145751953125f) + (s + s + tail) + (x - x);
}

/* Products become probabilities. */
SIMD_INLINE void na_softmax(const na_sizes *n, const na_tile *t, float *band, float *lse)
{
    for (int lane = 0; lane < NA_TILE; lane += VL) {
        float *p = band + lane;
        /* the finite start lets scores of -inf alone give exp(-inf) = 0 */
        vf top = v_set(-FLT_MAX), total = v_set(0.0f);
        for (int64_t place = t->first; place < t->last; place++) {
            const vf score = na_score(n, t, band, place, lane);
            v_store(EL_F32, p, place * NA_TILE, score);
            top = v_max(score, top);
        }
        for (int64_t place = t->first; place < t->last; place++) {
            const vf power = v_exp_normal(v_load(EL_F32, p, place * NA_TILE) - top);
            v_store(EL_F32, p, place * NA_TILE, power);
            total += power;
        }
        const vf zero = v_set(0.0f), inverse = v_select(total == zero, zero, v_set(1.0f) / total);
        for (int64_t place = t->first; place < t->last; place++)
            v_store(EL_F32, p, place * NA_TILE, v_load(EL_F32, p, place * NA_TILE) * inverse);
        v_store(EL_F32, lse, lane, v_select(total == zero, v_set(-INFINITY), top + na_log(total)));
    }
}

static void na_forward_task(const na_forward *f, const na_sequence *s, float *scratch)
{
    const na_sizes *n = &f->n;
    const int64_t tile = NA_TILE * n->panels * VL;
    float *q = scratch, *y = q, *band = q + tile; /* y takes the place of q */
    float lse[NA_TILE];
    na_window w = na_window_begin(2, band + na_band(n->width));
    for (int64_t i = s->begin; i < s->end; i += NA_TILE) {
        const na_tile t = na_tile_at(n, s, i, s->end);
        na_load_rows(n, &f->q, s, i, NA_TILE, q, NA_TILE);
        const int64_t have = na_window_move(n, &w), at = i - n->half + have;
        float *k = na_window_of(n, &w, 0), *v = na_window_of(n, &w, 1);
        na_load_rows(n, &f->k, s, at, n->width - 1 + NA_TILE - have, k + have * VL, n->window);
        na_load_rows(n, &f->v, s, at, n->width - 1 + NA_TILE - have, v + have * VL, n->window);
        const na_ahead ahead[] = {
            na_ahead_of(n, &f->q, s, i + NA_TILE), na_ahead_of(n, &f->k, s, i + NA_TILE + n->half),
            na_ahead_of(n, &f->y, s, i), na_ahead_of(n, &f->v, s, i + NA_TILE + n->half)};
        na_products(n, &t, q, k, band, ahead, 4);
        na_softmax(n, &t, band, lse);
        na_sum_keys(n, &t, band, v, y, 0, t.count);
        na_store_rows(n, &f->y, s, i, t.count, y, NA_TILE);
        for (int64_t m = 0; m < t.count && f->lse; m++)
            f->lse[na_place(n, s, i + m)] = lse[m];
    }
}

static void na_forward_tasks(void *arg, int64_t begin, int64_t end, int worker)
{
    const na_forward *f = arg;
    for (int64_t task = begin; task < end; task++) {
        const na_sequence s = na_sequence_of(&f->n, task);
        na_forward_task(f, &s, f->scratch + worker * f->scratch_size);
    }
}

static tg_status forward(tg_ctx *ctx, const tg_fused_neighborhood_attention_forward_args *a)
{
    na_forward f = {.n = na_sizes_of(a->q, a->kernel_size, a->dilation, a->scale),
                    .q = na_view_of(a->q),
                    .k = na_view_of(a->k),
                    .v = na_view_of(a->v),
                    .y = na_view_of(a->y),
                    .lse = tg_data(a->lse)};
    f.scratch_size = na_forward_floats(&f.n);
    f.scratch = tg_workspace(ctx, (size_t)(tg_ctx_threads(ctx) * f.scratch_size) * sizeof(float));
    if (!f.scratch)
        return TG_ENOMEM;
    tg_parallel_for(ctx, na_tasks(&f.n), na_grain(&f.n, 2), na_forward_tasks, &f);
    return TG_OK;
}

TG_CPU_IMPLS(fused_neighborhood_attention) = {
    TG_CPU_IMPL(fused_neighborhood_attention_forward, forward), TG_IMPLS_END};
