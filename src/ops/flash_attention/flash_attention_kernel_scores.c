/* flash_attention: what scores become before their softmax, by a soft cap and a bias; what is
 * dropped behind it. */
#include "flash_attention_cpu_kernels.h"

/* Keys of the panel of queries at i. */
SIMD_INLINE void cap_panel(const fa_tile *t, int i, float cap, float *scores, float *slope)
{
    const int begin = fa_keys_from(t, i), end = fa_keys_up(t, i + FA_NR - 1);
    for (int k = begin; k < end; k++)
        for (int j = 0; j < FA_NV; j++) {
            const int64_t at = k * FA_QB + i + j * VL;
            vf_mem *const score = (vf_mem *)(scores + at);
            const v_tanhs of = v_tanh_slope(*score / v_set(cap));
            *score = v_set(cap) * of.tanh;
            if (slope)
                *(vf_mem *)(slope + at) = of.slope;
        }
}

/* The bias of VL queries, rows that are `row` elements apart, and of VL keys from k on, of which
 * there are nk: added to scores of queries along lanes, of keys before `end`. */
SIMD_INLINE void add_square(el e, const char *bias, int64_t row, int64_t queries, int k, int nk,
                            int end, float *scores)
{
    vi square[VL];
    for (int r = 0; r < VL; r++)
        square[r] = r < queries ? (vi)v_load_n(e, bias + r * row * el_size(e), k,
                                               fa_min(VL, fa_max(0, nk - k)), 0.0f)
                                : v_seti(0);
    v_transpose(square);
    for (int r = 0; r < VL && k + r < end; r++) {
        vf_mem *const score = (vf_mem *)(scores + (k + r) * FA_QB);
        *score = *score + (vf)square[r];
    }
}

/* bias: of the tile's first query and key */
SIMD_INLINE void add_bias(el e, const fa_tile *t, const char *bias, int64_t row, float *scores)
{
    for (int i = 0; i < t->nq; i += VL) {
        const int panel = i / FA_NR * FA_NR;
        const int begin = fa_keys_from(t, panel), end = fa_keys_up(t, panel + FA_NR - 1);
        for (int k = begin; k < end; k += VL)
            add_square(e, bias + i * row * el_size(e), row, t->nq - i, k, t->nk, end, scores + i);
    }
}

void fa_change_scores(const fa_sizes *n, const fa_tile *t, int64_t b, int64_t h, int64_t q,
                      int64_t k, float *scores, float *slope)
{
    for (int i = 0; i < t->nq && n->softcap != 0; i += FA_NR)
        cap_panel(t, i, n->softcap, scores, slope);
    if (!n->bias.data)
        return;
    const char *bias = fa_at(&n->bias, n->bias_type, b, q, h) + k * el_size(n->bias_type);
    EL_SPECIALIZE(n->bias_type, add_bias, t, bias, n->bias.row, scores);
}

void fa_draw(const fa_sizes *n, const fa_tile *t, const attention_sequence *s, int64_t h, int64_t q,
             int64_t k, fa_kept *to)
{
    const uint32_t head = attention_head_of(s, n->heads, h), block = (uint32_t)(k / 32);
    const tg_dropout dropout = n->dropout;
    to->first = (int)(k % 32);
    for (int b = 0; b * 32 < to->first + fa_round_up(t->nk, FA_MR); b++)
        for (int i = 0; i < (int)fa_round_up(t->nq, FA_NR); i++)
            to->bits[b][i] = tg_dropout_kept(dropout, head, (uint32_t)(q + i), block + (uint32_t)b);
}
