/* flash_attention as an eager framework runs softmax(scale q k^T + mask) v: the scores of all heads
 * in memory, one pass and one temporary a step, the softmax in f32. */
#include <math.h>

#include "eager.h"

typedef struct attention {
    eager e;
    const tg_tensor *q, *k, *v;
    int64_t batch, heads, group, d, keys;
    int64_t blind; /* the first queries, which see no key */
    int64_t rows;  /* the other queries */
    double scale;
    int causal, type;
} attention;

static attention begin(tg_ctx *ctx, const tg_tensor *q, const tg_tensor *k, const tg_tensor *v,
                       double scale, int64_t causal)
{
    attention a = {.e = eager_begin(ctx), .q = q, .k = k, .v = v};
    a.batch = q->shape[0];
    a.heads = q->shape[2];
    a.group = k->shape[2] ? a.heads / k->shape[2] : 1;
    a.d = q->shape[3];
    a.keys = k->shape[1];
    const int64_t queries = q->shape[1];
    a.blind = a.keys == 0 ? queries : causal && queries > a.keys ? queries - a.keys : 0;
    a.rows = queries - a.blind;
    a.scale = scale != 0 ? scale : a.d > 0 ? 1 / sqrt((double)a.d) : 1;
    a.causal = (int)causal;
    a.type = tg_type_of(q);
    return a;
}

/* Rows from `first` on of one head of [B,S,H,D]. */
static mat head_of(const tg_tensor *t, int64_t b, int64_t h, int64_t first)
{
    const int type = tg_type_of(t);
    const int64_t at = b * tg_stride(t, 0) + first * tg_stride(t, 1) + h * tg_stride(t, 2);
    return eager_view(element_at(tg_data(t), type, at), type, t->shape[1] - first, t->shape[3],
                      tg_stride(t, 1));
}

/* One head's part of [B * H * rows, cols]. */
static mat part_of(const attention *a, mat all, int64_t head)
{
    return eager_view(element_at(all.data, all.type, head * a->rows * all.stride), all.type,
                      a->rows, all.cols, all.stride);
}

static mat new_scores(attention *a, int type)
{
    return eager_new(&a->e, type, a->batch * a->heads * a->rows, a->keys);
}

/* ---- the scores of all heads ---- */

/* 0 where a query sees a key, -inf elsewhere */
static void mask_rows(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const mat *m = arg;
    for (int64_t i = begin; i < end; i++)
        for (int64_t j = 0; j < m->cols; j++) {
            const int hidden = j > i + m->cols - m->rows;
            if (m->type == TG_F32)
                ((float *)m->data)[i * m->stride + j] = hidden ? -INFINITY : 0;
            else
                ((uint16_t *)m->data)[i * m->stride + j] = !hidden              ? 0
                                                           : m->type == TG_BF16 ? 0xff80
                                                                                : 0xfc00;
        }
}

static mat mask_step(attention *a, mat x)
{
    mat mask = eager_new(&a->e, x.type, a->rows, a->keys);
    const mat y = new_scores(a, x.type);
    if (a->e.status == TG_OK)
        unfused_host->parallel_for(a->e.ctx, mask.rows, 65536 / (mask.cols + 1) + 1, mask_rows,
                                   &mask);
    for (int64_t i = 0; i < a->batch * a->heads; i++)
        eager_binary(&a->e, EAGER_ADD, part_of(a, y, i), part_of(a, x, i), mask);
    eager_free(&a->e, mask);
    eager_free(&a->e, x);
    return y;
}

/* x y^T of every head: rows of x by keys */
static mat products_of_rows(attention *a, const tg_tensor *x, const tg_tensor *y)
{
    const mat all = new_scores(a, a->type);
    for (int64_t i = 0; i < a->batch * a->heads && a->e.status == TG_OK; i++) {
        const int64_t b = i / a->heads, h = i % a->heads;
        eager_multiply(&a->e, part_of(a, all, i), head_of(x, b, h, a->blind), 0,
                       head_of(y, b, h / a->group, 0), 1, 0);
    }
    return all;
}

/* scale q k^T + mask, in f32 */
static mat scores_of(attention *a)
{
    mat x = products_of_rows(a, a->q, a->k);
    x = eager_then_scalar(&a->e, EAGER_MUL, x, a->scale);
    if (a->causal)
        x = mask_step(a, x);
    return eager_then_type(&a->e, TG_F32, x);
}

/* ---- forward ---- */

/* Queries that see no key: y = 0, lse = -inf; the saved lse of the others. */
static void finish_rows(attention *a, const tg_tensor *y, const tg_tensor *lse, mat saved)
{
    for (int64_t i = 0; i < a->batch * a->heads && a->e.status == TG_OK; i++) {
        mat blind = head_of(y, i / a->heads, i % a->heads, 0);
        blind.rows = a->blind;
        eager_fill(&a->e, blind, 0);
        if (!lse)
            continue;
        float *to = (float *)tg_data(lse) + i * (a->blind + a->rows);
        eager_fill(&a->e, eager_view(to, TG_F32, a->blind, 1, 1), -INFINITY);
        if (a->rows)
            eager_unary(&a->e, EAGER_COPY, eager_view(to + a->blind, TG_F32, a->rows, 1, 1),
                        part_of(a, saved, i));
    }
}

static tg_status forward(tg_ctx *ctx, const tg_flash_attention_forward_args *args)
{
    attention a = begin(ctx, args->q, args->k, args->v, args->scale, args->causal);
    if (a.rows == 0) {
        finish_rows(&a, args->y, args->lse, (mat){0});
        return eager_end(&a.e);
    }
    const mat lse = eager_new(&a.e, TG_F32, a.batch * a.heads * a.rows, 1);
    mat p = scores_of(&a);
    p = eager_softmax(&a.e, p, lse);
    p = eager_then_type(&a.e, a.type, p);
    for (int64_t i = 0; i < a.batch * a.heads && a.e.status == TG_OK; i++) {
        const int64_t b = i / a.heads, h = i % a.heads;
        eager_multiply(&a.e, head_of(args->y, b, h, a.blind), part_of(&a, p, i), 0,
                       head_of(a.v, b, h / a.group, 0), 0, 0);
    }
    finish_rows(&a, args->y, args->lse, lse);
    return eager_end(&a.e);
}

/* ---- backward: the scores again, since the forward saved only lse ---- */

/* to[key] = sum over the heads of a group and their queries of p[query][key] x[query] */
static void sum_queries(attention *a, const tg_tensor *to, mat p, const tg_tensor *x)
{
    for (int64_t i = 0; i < a->batch * to->shape[2] && a->e.status == TG_OK; i++) {
        const int64_t b = i / to->shape[2], hk = i % to->shape[2];
        const mat out = head_of(to, b, hk, 0);
        if (a->rows == 0) {
            eager_fill(&a->e, out, 0);
            continue;
        }
        const mat sum = a->group > 1 ? eager_new(&a->e, TG_F32, out.rows, out.cols) : out;
        for (int64_t g = 0; g < a->group; g++) {
            const int64_t h = hk * a->group + g;
            eager_multiply(&a->e, sum, part_of(a, p, b * a->heads + h), 1,
                           head_of(x, b, h, a->blind), 0, g > 0);
        }
        if (a->group > 1) {
            eager_unary(&a->e, EAGER_COPY, out, sum);
            eager_free(&a->e, sum);
        }
    }
}

/* exp(scores - lse) */
static mat probabilities(attention *a, const tg_tensor *lse)
{
    mat p = scores_of(a);
    const mat saved = eager_new(&a->e, TG_F32, p.rows, 1);
    for (int64_t i = 0; i < a->batch * a->heads && a->e.status == TG_OK; i++)
        eager_unary(&a->e, EAGER_COPY, part_of(a, saved, i),
                    eager_view((float *)tg_data(lse) + i * (a->blind + a->rows) + a->blind, TG_F32,
                               a->rows, 1, 1));
    p = eager_then_by(&a->e, EAGER_SUB, p, saved);
    eager_free(&a->e, saved);
    return eager_then(&a->e, EAGER_EXP, p);
}

/* sum over d of dy y, one for each query of each head */
static mat output_products(attention *a, const tg_tensor *dy, const tg_tensor *y)
{
    const mat sums = eager_new(&a->e, TG_F32, a->batch * a->heads * a->rows, 1);
    const mat product = eager_new(&a->e, TG_F32, a->rows, a->d);
    for (int64_t i = 0; i < a->batch * a->heads && a->e.status == TG_OK; i++) {
        const int64_t b = i / a->heads, h = i % a->heads;
        eager_binary(&a->e, EAGER_MUL, product, head_of(dy, b, h, a->blind),
                     head_of(y, b, h, a->blind));
        eager_reduce_rows(&a->e, EAGER_SUM, part_of(a, sums, i), product);
    }
    eager_free(&a->e, product);
    return sums;
}

/* scale p (dp - sums); frees both */
static mat score_gradient(attention *a, mat p, mat dp, mat sums)
{
    dp = eager_then_by(&a->e, EAGER_SUB, dp, sums);
    const mat ds = new_scores(a, TG_F32);
    eager_binary(&a->e, EAGER_MUL, ds, p, dp);
    eager_free(&a->e, p);
    eager_free(&a->e, dp);
    return eager_then_scalar(&a->e, EAGER_MUL, eager_then_type(&a->e, a->type, ds), a->scale);
}

static tg_status backward(tg_ctx *ctx, const tg_flash_attention_backward_args *args)
{
    attention a = begin(ctx, args->q, args->k, args->v, args->scale, args->causal);
    mat ds = {0};
    if (a.rows > 0) {
        mat p = probabilities(&a, args->lse), stored = p;
        if (a.type != TG_F32) {
            stored = new_scores(&a, a.type);
            eager_unary(&a.e, EAGER_COPY, stored, p);
        }
        sum_queries(&a, args->dv, stored, args->dy);
        if (a.type != TG_F32)
            eager_free(&a.e, stored);
        const mat dp = eager_then_type(&a.e, TG_F32, products_of_rows(&a, args->dy, a.v));
        ds = score_gradient(&a, p, dp, output_products(&a, args->dy, args->y));
    } else {
        sum_queries(&a, args->dv, ds, args->dy);
    }
    sum_queries(&a, args->dk, ds, a.q);
    for (int64_t i = 0; i < a.batch * a.heads && a.e.status == TG_OK; i++) {
        const int64_t b = i / a.heads, h = i % a.heads;
        mat dq = head_of(args->dq, b, h, 0);
        dq.rows = a.blind;
        eager_fill(&a.e, dq, 0);
        if (a.rows)
            eager_multiply(&a.e, head_of(args->dq, b, h, a.blind), part_of(&a, ds, i), 0,
                           head_of(a.k, b, h / a.group, 0), 0, 0);
    }
    return eager_end(&a.e);
}

UNFUSED_IMPLS(flash_attention) = {UNFUSED_IMPL(flash_attention_forward, forward),
                                  UNFUSED_IMPL(flash_attention_backward, backward), TG_IMPLS_END};
