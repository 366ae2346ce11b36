/* flash_attention: the running softmax of a panel of FA_NR queries, and its gradient. */
#include "flash_attention_cpu_kernels.h"

/* ---- which keys the queries of a panel see ---- */

/* Words of keys `begin` to `end` of one panel become zero. */
SIMD_INLINE void fa_panel_clear(word *p, int begin, int end)
{
    for (int k = begin / FA_PER_WORD; k < end / FA_PER_WORD; k++)
        for (int j = 0; j < FA_NV; j++)
            *(vi_mem *)(p + k * FA_QB + j * VL) = v_seti(0);
}

/* The keys that are computed for the panel at i, [begin, end), and those of them that all its
 * queries see, [all_begin, all_end): even. Query j sees the keys from[j] to to[j]. */
typedef struct fa_panel {
    int begin, all_begin, all_end, end;
    vi from[FA_NV], to[FA_NV];
} fa_panel;

SIMD_INLINE fa_panel fa_panel_of(const fa_tile *t, int i)
{
    fa_panel p = {.begin = fa_keys_from(t, i), .end = fa_keys_up(t, i + FA_NR - 1)};
    const int last = (int)fa_round_up(fa_max(0, t->from + i + FA_NR - 1), 2);
    p.all_begin = (int)fa_max(p.begin, last);
    p.all_end = fa_keys(t, i) & ~1;
    if (p.all_begin >= p.all_end)
        p.all_begin = p.all_end = p.begin;
    for (int j = 0; j < FA_NV; j++) {
        const vi query = v_iota() + (i + j * VL), to = query + t->to, all = v_seti(t->nk);
        const vi more = to > all;
        p.from[j] = query + t->from;
        p.to[j] = t->to == FA_KB ? all : (all & more) | (to & ~more);
    }
    return p;
}

/* Whether the queries of vector j see a key. */
SIMD_INLINE vi fa_seen(const fa_panel *panel, int j, int key)
{
    const vi k = v_seti(key);
    return (k < panel->to[j]) & (k >= panel->from[j]);
}

/* ---- forward ---- */

SIMD_INLINE vf fa_score(const float *scores, int key, int j, int masked, const fa_panel *panel)
{
    const vf score = *(const vf_mem *)(scores + key * FA_QB + j * VL);
    return masked ? v_select(fa_seen(panel, j, key), score, v_set(-INFINITY)) : score;
}

SIMD_INLINE void fa_panel_max(const float *scores, int begin, int end, int masked,
                              const fa_panel *panel, vf max[FA_NV])
{
    vf other[FA_NV];
    for (int j = 0; j < FA_NV; j++)
        other[j] = max[j];
    for (int k = begin; k < end; k += 2)
        for (int j = 0; j < FA_NV; j++) {
            max[j] = v_max(max[j], fa_score(scores, k, j, masked, panel));
            other[j] = v_max(other[j], fa_score(scores, k + 1, j, masked, panel));
        }
    for (int j = 0; j < FA_NV; j++)
        max[j] = v_max(max[j], other[j]);
}

/* p, or 0 where it is dropped */
SIMD_INLINE vf fa_keep(vf p, const fa_kept *kept, int key, int i)
{
    return kept ? v_select(fa_is_kept(kept, key, i), p, v_set(0.0f)) : p;
}

/* What a panel's probabilities are made of. */
typedef struct fa_exp {
    fa_panel panel;
    const fa_kept *kept; /* of the panel's queries, and of those before it */
    vf max[FA_NV];
} fa_exp;

/* scores of the panel at i become probabilities, words of keys, in place */
SIMD_INLINE void fa_panel_exp(const fa_exp *e, int i, float *scores, int begin, int end, int masked,
                              int dropped, vf sum[FA_NV])
{
    const fa_kept *kept = dropped ? e->kept : NULL;
    for (int k = begin; k < end; k += 2)
        for (int j = 0; j < FA_NV; j++) {
            vf p0 = v_exp_normal(fa_score(scores, k, j, masked, &e->panel) - e->max[j]);
            vf p1 = v_exp_normal(fa_score(scores, k + 1, j, masked, &e->panel) - e->max[j]);
            sum[j] += p0 + p1;
            p0 = fa_keep(p0, kept, k, i + j * VL);
            p1 = fa_keep(p1, kept, k + 1, i + j * VL);
#if FA_PAIRS
            *(vi_mem *)((word *)scores + k / 2 * FA_QB + j * VL) = v_pack_pairs(p0, p1);
#else
            *(vf_mem *)(scores + k * FA_QB + j * VL) = p0;
            *(vf_mem *)(scores + (k + 1) * FA_QB + j * VL) = p1;
#endif
        }
}

SIMD_INLINE void fa_panel_exps(const fa_exp *e, int i, float *scores, int dropped, vf sum[FA_NV])
{
    const fa_panel *p = &e->panel;
    fa_panel_exp(e, i, scores, p->begin, p->all_begin, 1, dropped, sum);
    fa_panel_exp(e, i, scores, p->all_begin, p->all_end, 0, dropped, sum);
    fa_panel_exp(e, i, scores, p->all_end, p->end, 1, dropped, sum);
}

void fa_softmax(const fa_tile *t, int i, int filled, const fa_kept *kept, float *scores, float *max,
                float *sum, float *factor)
{
    fa_exp e = {.panel = fa_panel_of(t, i), .kept = kept};
    const fa_panel panel = e.panel;
    vf top[FA_NV], total[FA_NV];
    for (int j = 0; j < FA_NV; j++)
        top[j] = *(vf_mem *)(max + j * VL);
    fa_panel_max(scores, panel.begin, panel.all_begin, 1, &panel, top);
    fa_panel_max(scores, panel.all_begin, panel.all_end, 0, &panel, top);
    fa_panel_max(scores, panel.all_end, panel.end, 1, &panel, top);
    for (int j = 0; j < FA_NV; j++) {
        e.max[j] = v_select(top[j] == v_set(-INFINITY), v_set(0.0f), top[j]);
        const vf less = v_exp_normal(*(vf_mem *)(max + j * VL) - e.max[j]);
        total[j] = *(vf_mem *)(sum + j * VL) * less;
        *(vf_mem *)(factor + j * VL) = less;
        *(vf_mem *)(max + j * VL) = top[j];
    }
    if (kept)
        fa_panel_exps(&e, i, scores, 1, total);
    else
        fa_panel_exps(&e, i, scores, 0, total);
    fa_panel_clear((word *)scores, fa_keys_from(t, 0), panel.begin);
    fa_panel_clear((word *)scores, panel.end, filled);
    for (int j = 0; j < FA_NV; j++)
        *(vf_mem *)(sum + j * VL) = total[j];
}

/* ---- backward ---- */

/* What a panel's gradients are made of. */
typedef struct fa_gradient {
    float *p, *ds;
    word *ds_keys;
    const float *slope;
    const fa_kept *kept;
    fa_panel panel;
    vf lse[FA_NV], products[FA_NV];
} fa_gradient;

/* p = exp(score - lse), ds = p (dp - product) slope, for the keys begin to end of the panel at i;
 * p and dp become 0 where they are dropped */
SIMD_INLINE void fa_panel_gradient(const fa_gradient *g, int i, int begin, int end, int masked,
                                   int capped, int dropped)
{
    const fa_kept *kept = dropped ? g->kept : NULL;
    for (int k = begin; k < end; k += 2) {
        vf pk[2][FA_NV], dk[2][FA_NV];
        for (int r = 0; r < 2; r++)
            for (int j = 0; j < FA_NV; j++) {
                const int64_t at = (k + r) * FA_QB + i + j * VL;
                const vf e =
                    v_exp_normal(v_min(v_set(88.0f), *(const vf_mem *)(g->p + at) - g->lse[j]));
                const vf dp = fa_keep(*(const vf_mem *)(g->ds + at), kept, k + r, i + j * VL);
                vf s = e * (dp - g->products[j]);
                if (capped)
                    s *= *(const vf_mem *)(g->slope + at);
                const vi seen = fa_seen(&g->panel, j, k + r);
                const vf used = fa_keep(e, kept, k + r, i + j * VL);
                pk[r][j] = masked ? v_select(seen, used, v_set(0.0f)) : used;
                dk[r][j] = masked ? v_select(seen, s, v_set(0.0f)) : s;
            }
#if FA_PAIRS
        /* the words of queries of a panel are written over scores of this or earlier panels */
        for (int r = 0; r < 2; r++) {
            const int64_t at = (k + r) * FA_QB + i / 2;
            *(vi_mem *)((word *)g->p + at) = v_pack_row(pk[r][0], pk[r][1]);
            *(vi_mem *)((word *)g->ds + at) = v_pack_row(dk[r][0], dk[r][1]);
        }
        for (int j = 0; j < FA_NV; j++)
            *(vi_mem *)(g->ds_keys + k / 2 * FA_QB + i + j * VL) = v_pack_pairs(dk[0][j], dk[1][j]);
#else
        for (int r = 0; r < 2; r++)
            for (int j = 0; j < FA_NV; j++) {
                const int64_t at = (k + r) * FA_QB + i + j * VL;
                *(vf_mem *)(g->p + at) = pk[r][j];
                *(vf_mem *)(g->ds + at) = dk[r][j];
            }
#endif
    }
}

SIMD_INLINE void fa_panel_gradients(const fa_gradient *g, int i, int capped, int dropped)
{
    const fa_panel *p = &g->panel;
    fa_panel_gradient(g, i, p->begin, p->all_begin, 1, capped, dropped);
    fa_panel_gradient(g, i, p->all_begin, p->all_end, 0, capped, dropped);
    fa_panel_gradient(g, i, p->all_end, p->end, 1, capped, dropped);
}

void fa_softmax_gradient(const fa_tile *t, int i, int filled, const fa_kept *kept, float *p,
                         float *ds, word *ds_keys, const float *slope, const float *rows,
                         int64_t padded)
{
    fa_gradient g = {p, ds, ds_keys, slope, kept, .panel = fa_panel_of(t, i)};
    for (int j = 0; j < FA_NV; j++) {
        g.lse[j] = *(const vf_mem *)(rows + i + j * VL);
        g.products[j] = *(const vf_mem *)(rows + padded + i + j * VL);
    }
    if (!slope && !kept)
        fa_panel_gradients(&g, i, 0, 0);
    else if (!kept)
        fa_panel_gradients(&g, i, 1, 0);
    else if (!slope)
        fa_panel_gradients(&g, i, 0, 1);
    else
        fa_panel_gradients(&g, i, 1, 1);
    fa_panel_clear(ds_keys + i, fa_keys_from(t, 0), g.panel.begin);
    fa_panel_clear(ds_keys + i, g.panel.end, filled);
}
