/* flash_attention: the running softmax of a panel of FA_NR queries, and its gradient. */
#include "flash_attention_cpu.h"

/* ---- which keys the queries of a panel see ---- */

/* Words of keys `begin` to `end` of one panel become zero. */
SIMD_INLINE void fa_panel_clear(word *p, int begin, int end)
{
    for (int k = begin / FA_PER_WORD; k < end / FA_PER_WORD; k++)
        for (int j = 0; j < FA_NV; j++)
            *(vi_mem *)(p + k * FA_QB + j * VL) = v_seti(0);
}

/* keys that all queries of the panel at i see, even */
SIMD_INLINE int fa_keys_all(const fa_tile *t, int i)
{
    return fa_keys(t, i) & ~1;
}

SIMD_INLINE void fa_panel_keys(const fa_tile *t, int i, vi keys[FA_NV])
{
    for (int j = 0; j < FA_NV; j++) {
        const vi seen = v_iota() + (t->first + i + j * VL), all = v_seti(t->nk);
        const vi more = seen > all;
        keys[j] = t->first == FA_KB ? all : (all & more) | (seen & ~more);
    }
}

/* ---- forward ---- */

SIMD_INLINE vf fa_score(const float *scores, int key, int j, int masked, vi keys)
{
    const vf score = *(const vf_mem *)(scores + key * FA_QB + j * VL);
    return masked ? v_select(v_seti(key) < keys, score, v_set(-INFINITY)) : score;
}

SIMD_INLINE void fa_panel_max(const float *scores, int begin, int end, int masked,
                              const vi keys[FA_NV], vf max[FA_NV])
{
    vf other[FA_NV];
    for (int j = 0; j < FA_NV; j++)
        other[j] = max[j];
    for (int k = begin; k < end; k += 2)
        for (int j = 0; j < FA_NV; j++) {
            max[j] = v_max(max[j], fa_score(scores, k, j, masked, keys[j]));
            other[j] = v_max(other[j], fa_score(scores, k + 1, j, masked, keys[j]));
        }
    for (int j = 0; j < FA_NV; j++)
        max[j] = v_max(max[j], other[j]);
}

/* scores become probabilities, words of keys, in place */
SIMD_INLINE void fa_panel_exp(float *scores, int begin, int end, int masked, const vi keys[FA_NV],
                              const vf max[FA_NV], vf sum[FA_NV])
{
    for (int k = begin; k < end; k += 2)
        for (int j = 0; j < FA_NV; j++) {
            const vf p0 = v_exp_normal(fa_score(scores, k, j, masked, keys[j]) - max[j]);
            const vf p1 = v_exp_normal(fa_score(scores, k + 1, j, masked, keys[j]) - max[j]);
            sum[j] += p0 + p1;
#if FA_PAIRS
            *(vi_mem *)((word *)scores + k / 2 * FA_QB + j * VL) = v_pack_pairs(p0, p1);
#else
            *(vf_mem *)(scores + k * FA_QB + j * VL) = p0;
            *(vf_mem *)(scores + (k + 1) * FA_QB + j * VL) = p1;
#endif
        }
}

void fa_softmax(const fa_tile *t, int i, int filled, float *scores, float *max, float *sum,
                float *factor)
{
    const int full = fa_keys_all(t, i), end = fa_keys_up(t, i + FA_NR - 1);
    vi keys[FA_NV];
    vf top[FA_NV], base[FA_NV], total[FA_NV];
    fa_panel_keys(t, i, keys);
    for (int j = 0; j < FA_NV; j++)
        top[j] = *(vf_mem *)(max + j * VL);
    fa_panel_max(scores, 0, full, 0, keys, top);
    fa_panel_max(scores, full, end, 1, keys, top);
    for (int j = 0; j < FA_NV; j++) {
        base[j] = v_select(top[j] == v_set(-INFINITY), v_set(0.0f), top[j]);
        const vf less = v_exp_normal(*(vf_mem *)(max + j * VL) - base[j]);
        total[j] = *(vf_mem *)(sum + j * VL) * less;
        *(vf_mem *)(factor + j * VL) = less;
        *(vf_mem *)(max + j * VL) = top[j];
    }
    fa_panel_exp(scores, 0, full, 0, keys, base, total);
    fa_panel_exp(scores, full, end, 1, keys, base, total);
    fa_panel_clear((word *)scores, end, filled);
    for (int j = 0; j < FA_NV; j++)
        *(vf_mem *)(sum + j * VL) = total[j];
}

/* ---- backward ---- */

/* p = exp(score - lse), ds = p (dp - product), for the keys begin to end of a panel */
SIMD_INLINE void fa_panel_gradient(float *p, float *ds, word *ds_keys, int panel, int begin,
                                   int end, int masked, const vi keys[FA_NV], const vf lse[FA_NV],
                                   const vf products[FA_NV])
{
    for (int k = begin; k < end; k += 2) {
        vf pk[2][FA_NV], dk[2][FA_NV];
        for (int r = 0; r < 2; r++)
            for (int j = 0; j < FA_NV; j++) {
                const int64_t at = (k + r) * FA_QB + panel + j * VL;
                const vf e = v_exp_normal(v_min(v_set(88.0f), *(const vf_mem *)(p + at) - lse[j]));
                const vf s = e * (*(const vf_mem *)(ds + at) - products[j]);
                const vi seen = v_seti(k + r) < keys[j];
                pk[r][j] = masked ? v_select(seen, e, v_set(0.0f)) : e;
                dk[r][j] = masked ? v_select(seen, s, v_set(0.0f)) : s;
            }
#if FA_PAIRS
        /* the words of queries of a panel are written over scores of this or earlier panels */
        for (int r = 0; r < 2; r++) {
            const int64_t at = (k + r) * FA_QB + panel / 2;
            *(vi_mem *)((word *)p + at) = v_pack_row(pk[r][0], pk[r][1]);
            *(vi_mem *)((word *)ds + at) = v_pack_row(dk[r][0], dk[r][1]);
        }
        for (int j = 0; j < FA_NV; j++)
            *(vi_mem *)(ds_keys + k / 2 * FA_QB + panel + j * VL) =
                v_pack_pairs(dk[0][j], dk[1][j]);
#else
        (void)ds_keys;
        for (int r = 0; r < 2; r++)
            for (int j = 0; j < FA_NV; j++) {
                const int64_t at = (k + r) * FA_QB + panel + j * VL;
                *(vf_mem *)(p + at) = pk[r][j];
                *(vf_mem *)(ds + at) = dk[r][j];
            }
#endif
    }
}

void fa_softmax_gradient(const fa_tile *t, int i, int filled, float *p, float *ds, word *ds_keys,
                         const float *rows, int64_t padded)
{
    const int full = fa_keys_all(t, i), end = fa_keys_up(t, i + FA_NR - 1);
    vi keys[FA_NV];
    vf lse[FA_NV], products[FA_NV];
    fa_panel_keys(t, i, keys);
    for (int j = 0; j < FA_NV; j++) {
        lse[j] = *(const vf_mem *)(rows + i + j * VL);
        products[j] = *(const vf_mem *)(rows + padded + i + j * VL);
    }
    fa_panel_gradient(p, ds, ds_keys, i, 0, full, 0, keys, lse, products);
    fa_panel_gradient(p, ds, ds_keys, i, full, end, 1, keys, lse, products);
    fa_panel_clear(ds_keys + i, end, filled);
}
