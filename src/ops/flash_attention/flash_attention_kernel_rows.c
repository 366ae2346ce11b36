/* flash_attention: what the backward has of each query: lse, the sum of dy y, its share of the
 * gradient of a sink. */
#include "flash_attention_cpu_backward.h"

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

SIMD_INLINE void fa_product_rows(el e, const fa_backward *w, int64_t sequence, int64_t h,
                                 int64_t q0)
{
    const fa_cut *cut = &w->cut[sequence];
    const attention_sequence *s = &cut->of.at;
    const float *saved = w->lse + (s->batch * w->n.heads + h) * w->n.mask.queries + s->query;
    const int64_t blind = fa_blind(&cut->of);
    float *lse = fa_rows_at(w, sequence, h), *products = lse + cut->padded;
    for (int64_t i = q0; i < q0 + FA_QB; i++) {
        lse[i] = INFINITY; /* makes p = 0, for queries past the end and for those that see no key */
        products[i] = 0.0f;
        if (i >= s->queries || i < blind)
            continue;
        if (saved[i] != -INFINITY)
            lse[i] = saved[i];
        const char *y = fa_at(&w->y, e, s->batch, s->query + i, h);
        products[i] = fa_product(e, y, fa_at(&w->dy, e, s->batch, s->query + i, h), w->n.e);
    }
}

fa_block_of fa_block_at(const fa_backward *w, int64_t i)
{
    const int64_t sequence = fa_find(w->blocks, w->n.mask.sequences, i);
    const int64_t at = i - w->blocks[sequence], blocks = w->cut[sequence].padded / FA_QB;
    return (fa_block_of){sequence, at / blocks, at % blocks * FA_QB};
}

void fa_prepare_tasks(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const fa_backward *w = arg;
    for (int64_t i = begin; i < end; i++) {
        const fa_block_of block = fa_block_at(w, i);
        EL_SPECIALIZE(w->n.type, fa_product_rows, w, block.sequence, block.head, block.begin);
    }
}

/* ---- sinks ---- */

/* Of a head: minus the sum over queries of exp(sink - lse) dy y. */
static double fa_sink_gradient(const fa_backward *w, int64_t h)
{
    const float sink = fa_number(w->n.sinks_type, w->n.sinks, h);
    double total = 0;
    for (int64_t s = 0; s < w->n.mask.sequences && sink != -INFINITY; s++) {
        const float *lse = fa_rows_at(w, s, h), *products = lse + w->cut[s].padded;
        for (int64_t i = 0; i < w->cut[s].padded; i += FA_QB) {
            vf sum = v_set(0.0f);
            for (int64_t j = i; j < i + FA_QB; j += VL)
                sum += v_exp_normal(v_set(sink) - *(const vf_mem *)(lse + j)) *
                       *(const vf_mem *)(products + j);
            total -= v_sum(sum);
        }
    }
    return total;
}

void fa_sink_tasks(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const fa_backward *w = arg;
    for (int64_t h = begin; h < end; h++)
        tg_set(tg_data(w->dsinks), tg_type_of(w->dsinks), h, fa_sink_gradient(w, h));
}
