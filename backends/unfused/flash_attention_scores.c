/* flash_attention_scores.c - see flash_attention.h. */
#include <math.h>

#include "flash_attention.h"

attention attention_begin(attention a)
{
    const int64_t d = a.q->shape[3];
    a.batch = a.q->shape[0];
    a.heads = a.q->shape[2];
    a.group = a.k->shape[2] ? a.heads / a.k->shape[2] : 1;
    a.keys = a.k->shape[1];
    a.queries = a.q->shape[1];
    if (a.scale == 0)
        a.scale = d > 0 ? 1 / sqrt((double)d) : 1;
    a.type = tg_type_of(a.q);
    return a;
}

mat attention_head(const tg_tensor *t, int64_t b, int64_t h)
{
    const int type = tg_type_of(t);
    const int64_t at = b * tg_stride(t, 0) + h * tg_stride(t, 2);
    return eager_view(element_at(tg_data(t), type, at), type, t->shape[1], t->shape[3],
                      tg_stride(t, 1));
}

mat attention_part(const attention *a, mat all, int64_t head)
{
    return eager_view(element_at(all.data, all.type, head * a->queries * all.stride), all.type,
                      a->queries, all.cols, all.stride);
}

mat attention_rows(attention *a, int type, int64_t columns)
{
    return eager_new(&a->e, type, a->batch * a->heads * a->queries, columns);
}

/* ---- the mask ---- */

typedef struct mask {
    mat to;
    const int64_t *bounds_q, *bounds_k; /* of packed rows, or of all */
    int64_t sequences, left, right;
} mask;

/* 0 where query i sees a key, -inf elsewhere */
static void mask_row(const mask *m, int64_t i, int64_t sequence)
{
    const int64_t *q = m->bounds_q, *k = m->bounds_k, s = sequence;
    const int inside = s < m->sequences;
    const int64_t first = inside ? k[s] : 0, last = inside ? k[s + 1] : 0;
    const int64_t own = inside ? last + i - q[s + 1] : 0; /* the key beside the query */
    for (int64_t j = 0; j < m->to.cols; j++) {
        const int hidden = j < first || j >= last || (m->left >= 0 && j < own - m->left) ||
                           (m->right >= 0 && j > own + m->right);
        const int64_t at = i * m->to.stride + j;
        if (m->to.type == TG_F32)
            ((float *)m->to.data)[at] = hidden ? -INFINITY : 0;
        else
            ((uint16_t *)m->to.data)[at] = !hidden ? 0 : m->to.type == TG_BF16 ? 0xff80 : 0xfc00;
    }
}

static void mask_rows(void *arg, int64_t first, int64_t end, int worker)
{
    (void)worker;
    const mask *m = arg;
    int64_t sequence = 0;
    for (int64_t i = first; i < end; i++) {
        while (sequence < m->sequences && i >= m->bounds_q[sequence + 1])
            sequence++;
        mask_row(m, i, sequence);
    }
}

static mat mask_step(attention *a, mat x)
{
    const int64_t whole_q[] = {0, a->queries}, whole_k[] = {0, a->keys};
    const tg_tensor *q = a->cu_seqlens_q, *k = a->cu_seqlens_k;
    mask m = {.to = eager_new(&a->e, x.type, a->queries, a->keys),
              .bounds_q = q ? tg_data(q) : whole_q,
              .bounds_k = k ? tg_data(k) : whole_k,
              .sequences = q ? q->shape[0] - 1 : 1,
              .left = a->left,
              .right = a->right};
    const mat y = attention_rows(a, x.type, a->keys);
    if (a->e.status == TG_OK)
        unfused_host->parallel_for(a->e.ctx, m.to.rows, 65536 / (m.to.cols + 1) + 1, mask_rows, &m);
    for (int64_t i = 0; i < a->batch * a->heads; i++)
        eager_binary(&a->e, EAGER_ADD, attention_part(a, y, i), attention_part(a, x, i), m.to);
    eager_free(&a->e, m.to);
    eager_free(&a->e, x);
    return y;
}

/* ---- the scores of all heads ---- */

mat attention_products(attention *a, const tg_tensor *x, const tg_tensor *y)
{
    const mat all = attention_rows(a, a->type, a->keys);
    for (int64_t i = 0; i < a->batch * a->heads && a->e.status == TG_OK; i++) {
        const int64_t b = i / a->heads, h = i % a->heads;
        eager_multiply(&a->e, attention_part(a, all, i), attention_head(x, b, h), 0,
                       attention_head(y, b, h / a->group), 1, 0);
    }
    return all;
}

/* c tanh(x / c); slope: its derivative, if it is wanted */
static mat cap_step(attention *a, mat x, mat *slope)
{
    x = eager_then_scalar(&a->e, EAGER_DIV, x, a->softcap);
    if (slope) {
        *slope = attention_rows(a, TG_F32, a->keys);
        eager_unary(&a->e, EAGER_TANH_SLOPE, *slope, x);
    }
    x = eager_then(&a->e, EAGER_TANH, x);
    return eager_then_scalar(&a->e, EAGER_MUL, x, a->softcap);
}

static mat bias_step(attention *a, mat x)
{
    const tg_tensor *t = a->bias;
    const mat y = attention_rows(a, x.type, a->keys);
    for (int64_t i = 0; i < a->batch * a->heads; i++) {
        const int64_t at = i / a->heads * tg_stride(t, 0) + i % a->heads * tg_stride(t, 1);
        const int type = tg_type_of(t);
        const mat bias = eager_view(element_at(tg_data(t), type, at), type, a->queries, a->keys,
                                    tg_stride(t, 2));
        eager_binary(&a->e, EAGER_ADD, attention_part(a, y, i), attention_part(a, x, i), bias);
    }
    eager_free(&a->e, x);
    return y;
}

mat attention_scores(attention *a, mat *slope)
{
    mat x = attention_products(a, a->q, a->k);
    x = eager_then_scalar(&a->e, EAGER_MUL, x, a->scale);
    if (a->softcap != 0)
        x = cap_step(a, x, slope);
    if (a->left >= 0 || a->right >= 0 || a->cu_seqlens_q)
        x = mask_step(a, x);
    if (a->bias)
        x = bias_step(a, x);
    return eager_then_type(&a->e, TG_F32, x);
}
