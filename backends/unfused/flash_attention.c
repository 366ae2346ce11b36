/* flash_attention as an eager framework runs softmax(scale q k^T + mask) v: one pass and one
 * temporary a step, the softmax in f32. A sink is one more column of scores. */
#include "flash_attention.h"

/* ---- forward ---- */

static mat sink_of(const attention *a, int64_t h)
{
    const int type = tg_type_of(a->sinks);
    return eager_view(element_at(tg_data(a->sinks), type, h), type, 1, 1, 1);
}

/* x with a column more, each head's sink */
static mat sinks_step(attention *a, mat x)
{
    const mat y = attention_rows(a, TG_F32, a->keys + 1);
    eager_unary(&a->e, EAGER_COPY, eager_columns(y, 0, a->keys), x);
    for (int64_t i = 0; i < a->batch * a->heads && a->e.status == TG_OK; i++)
        eager_unary(&a->e, EAGER_COPY, eager_columns(attention_part(a, y, i), a->keys, 1),
                    sink_of(a, i % a->heads));
    eager_free(&a->e, x);
    return y;
}

/* The softmax of each row, which frees x; lse becomes the log of its sum. A row of -inf alone
 * becomes 0, as frameworks write into it afterwards. */
static mat softmax_step(attention *a, mat x, mat lse)
{
    eager *e = &a->e;
    const mat max = attention_rows(a, TG_F32, 1), some = attention_rows(a, TG_F32, 1);
    if (a->queries > 0)
        eager_reduce_rows(e, EAGER_MAX, max, x);
    eager_scalar(e, EAGER_MAX, max, max, -1e30);
    x = eager_then_by(e, EAGER_SUB, x, max);
    x = eager_then(e, EAGER_EXP, x);
    eager_reduce_rows(e, EAGER_SUM, lse, x);
    eager_scalar(e, EAGER_MAX, some, lse, 1e-30);
    x = eager_then_by(e, EAGER_DIV, x, some);
    eager_unary(e, EAGER_LOG, lse, lse);
    eager_binary(e, EAGER_ADD, lse, lse, max);
    eager_free(e, max);
    eager_free(e, some);
    return x;
}

static tg_status forward(tg_ctx *ctx, const tg_flash_attention_forward_args *args)
{
    attention a = ATTENTION(ctx, args);
    const mat lse =
        args->lse ? eager_view(tg_data(args->lse), TG_F32, a.batch * a.heads * a.queries, 1, 1)
                  : attention_rows(&a, TG_F32, 1);
    mat p = attention_scores(&a, NULL);
    if (a.sinks)
        p = sinks_step(&a, p);
    p = eager_columns(softmax_step(&a, p, lse), 0, a.keys);
    p = attention_drop(&a, eager_then_type(&a.e, a.type, p));
    for (int64_t i = 0; i < a.batch * a.heads && a.e.status == TG_OK; i++) {
        const int64_t b = i / a.heads, h = i % a.heads;
        eager_multiply(&a.e, attention_head(args->y, b, h), attention_part(&a, p, i), 0,
                       attention_head(a.v, b, h / a.group), 0, 0);
    }
    return eager_end(&a.e);
}

/* ---- backward: the scores again, since the forward saved only lse ---- */

/* to[key] = sum over the heads of a group and their queries of p[query][key] x[query] */
static void sum_queries(attention *a, const tg_tensor *to, mat p, const tg_tensor *x)
{
    for (int64_t i = 0; i < a->batch * to->shape[2] && a->e.status == TG_OK; i++) {
        const int64_t b = i / to->shape[2], hk = i % to->shape[2];
        const mat out = attention_head(to, b, hk);
        const mat sum = a->group > 1 ? eager_new(&a->e, TG_F32, out.rows, out.cols) : out;
        for (int64_t g = 0; g < a->group; g++) {
            const int64_t h = hk * a->group + g;
            eager_multiply(&a->e, sum, attention_part(a, p, b * a->heads + h), 1,
                           attention_head(x, b, h), 0, g > 0);
        }
        if (a->group > 1) {
            eager_unary(&a->e, EAGER_COPY, out, sum);
            eager_free(&a->e, sum);
        }
    }
}

/* lse; of queries that see nothing a number, below which all scores lie */
static mat saved_lse(attention *a, const tg_tensor *lse)
{
    const mat saved = attention_rows(a, TG_F32, 1);
    eager_scalar(&a->e, EAGER_MAX, saved, eager_view(tg_data(lse), TG_F32, saved.rows, 1, 1),
                 -1e30);
    return saved;
}

/* sum over d of dy y, one for each query of each head */
static mat output_products(attention *a, const tg_tensor *dy, const tg_tensor *y)
{
    const mat sums = attention_rows(a, TG_F32, 1);
    const mat product = eager_new(&a->e, TG_F32, a->queries, y->shape[3]);
    for (int64_t i = 0; i < a->batch * a->heads && a->e.status == TG_OK; i++) {
        const int64_t b = i / a->heads, h = i % a->heads;
        eager_binary(&a->e, EAGER_MUL, product, attention_head(dy, b, h), attention_head(y, b, h));
        eager_reduce_rows(&a->e, EAGER_SUM, attention_part(a, sums, i), product);
    }
    eager_free(&a->e, product);
    return sums;
}

/* dsinks = - sum over queries of exp(sink - lse) sums */
static void sum_sinks(attention *a, const tg_tensor *dsinks, mat lse, mat sums)
{
    const mat p = attention_rows(a, TG_F32, 1), total = eager_new(&a->e, TG_F32, 1, 1);
    const mat part = eager_new(&a->e, TG_F32, 1, 1);
    for (int64_t i = 0; i < a->batch * a->heads && a->e.status == TG_OK; i++) {
        const mat of = attention_part(a, p, i);
        eager_binary(&a->e, EAGER_SUB, of, sink_of(a, i % a->heads), attention_part(a, lse, i));
        eager_unary(&a->e, EAGER_EXP, of, of);
        eager_binary(&a->e, EAGER_MUL, of, of, attention_part(a, sums, i));
    }
    for (int64_t h = 0; h < a->heads && a->e.status == TG_OK; h++) {
        const int type = tg_type_of(dsinks);
        eager_fill(&a->e, total, 0);
        for (int64_t b = 0; b < a->batch; b++) {
            eager_sum_columns(&a->e, part, attention_part(a, p, b * a->heads + h));
            eager_binary(&a->e, EAGER_SUB, total, total, part);
        }
        eager_unary(&a->e, EAGER_COPY,
                    eager_view(element_at(tg_data(dsinks), type, h), type, 1, 1, 1), total);
    }
}

/* scale p (dp - sums), with softcap times slope; frees all but sums */
static mat score_gradient(attention *a, mat p, mat dp, mat sums, const mat *slope)
{
    dp = eager_then_by(&a->e, EAGER_SUB, dp, sums);
    mat ds = attention_rows(a, TG_F32, a->keys);
    eager_binary(&a->e, EAGER_MUL, ds, p, dp);
    eager_free(&a->e, p);
    eager_free(&a->e, dp);
    if (a->softcap != 0) {
        ds = eager_then_by(&a->e, EAGER_MUL, ds, *slope);
        eager_free(&a->e, *slope);
    }
    return eager_then_scalar(&a->e, EAGER_MUL, eager_then_type(&a->e, a->type, ds), a->scale);
}

static tg_status backward(tg_ctx *ctx, const tg_flash_attention_backward_args *args)
{
    attention a = ATTENTION(ctx, args);
    mat slope = {0};
    const mat lse = saved_lse(&a, args->lse);
    mat p = eager_then_by(&a.e, EAGER_SUB, attention_scores(&a, &slope), lse);
    p = eager_then(&a.e, EAGER_EXP, p);
    const int apart = a.type != TG_F32 || a.dropout.least;
    const mat used = apart ? attention_drop(&a, eager_copy(&a.e, a.type, p)) : p;
    sum_queries(&a, args->dv, used, args->dy);
    if (apart)
        eager_free(&a.e, used);
    const mat sums = output_products(&a, args->dy, args->y);
    if (args->dsinks)
        sum_sinks(&a, args->dsinks, lse, sums);
    const mat dp = eager_then_type(&a.e, TG_F32, attention_products(&a, args->dy, a.v));
    const mat ds = score_gradient(&a, p, attention_drop(&a, dp), sums, &slope);
    sum_queries(&a, args->dk, ds, a.q);
    for (int64_t i = 0; i < a.batch * a.heads && a.e.status == TG_OK; i++) {
        const int64_t b = i / a.heads, h = i % a.heads;
        eager_multiply(&a.e, attention_head(args->dq, b, h), attention_part(&a, ds, i), 0,
                       attention_head(a.k, b, h / a.group), 0, 0);
    }
    return eager_end(&a.e);
}

UNFUSED_IMPLS(flash_attention) = {UNFUSED_IMPL(flash_attention_forward, forward),
                                  UNFUSED_IMPL(flash_attention_backward, backward), TG_IMPLS_END};
