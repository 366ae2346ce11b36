/* attn_res as an eager framework runs it: one pass and one temporary a step, f32 inside; the blocks
 * one after the other where a step has a tensor of tokens beside one of blocks. */
#include "eager.h"

/* v [L R, D], and what it is made of: token t of block l is row l R + t. */
typedef struct depth {
    mat v;
    int64_t blocks, tokens;
} depth;

static depth depth_of(const tg_tensor *v)
{
    depth d = {eager_rows(v), v->shape[0], 0};
    d.tokens = d.v.rows / d.blocks;
    return d;
}

/* The rows of a block. */
static mat block_of(const depth *d, mat m, int64_t l)
{
    const int64_t size = (int64_t)tg_type_size(m.type);
    m.data = (char *)m.data + l * d->tokens * m.stride * size;
    m.rows = d->tokens;
    return m;
}

/* Column l of [R, L]. */
static mat column_of(const depth *d, mat m, int64_t l)
{
    return eager_view((float *)m.data + l, TG_F32, d->tokens, 1, d->blocks);
}

static mat in_tokens(const depth *d, const tg_tensor *t)
{
    return eager_view(tg_data(t), TG_F32, d->tokens, d->blocks, d->blocks);
}

/* query weight, [1, D] */
static mat key_of(eager *e, const tg_tensor *query, const tg_tensor *weight)
{
    const mat q = eager_vector(query), key = eager_new(e, TG_F32, 1, q.cols);
    eager_binary(e, EAGER_MUL, key, q, eager_vector(weight));
    return key;
}

static void put_rstd(eager *e, const depth *d, const tg_tensor *rstd, mat r)
{
    for (int64_t l = 0; rstd && l < d->blocks; l++)
        eager_unary(e, EAGER_COPY, column_of(d, in_tokens(d, rstd), l), block_of(d, r, l));
}

/* The softmax of the scores, [R, L]. */
static mat alpha_of(eager *e, const depth *d, const tg_attn_res_forward_args *a)
{
    const mat wide = eager_copy(e, TG_F32, d->v), r = eager_row_rstd(e, wide, a->eps);
    put_rstd(e, d, a->rstd, r);
    mat k = eager_then_by(e, EAGER_MUL, wide, r);
    k = eager_then_by(e, EAGER_MUL, k, key_of(e, a->query, a->weight));
    eager_reduce_rows(e, EAGER_SUM, r, k);
    eager_free(e, k);
    const mat scores = eager_new(e, TG_F32, d->tokens, d->blocks),
              lse = eager_new(e, TG_F32, d->tokens, 1);
    for (int64_t l = 0; l < d->blocks; l++)
        eager_unary(e, EAGER_COPY, column_of(d, scores, l), block_of(d, r, l));
    return eager_softmax(e, scores, lse);
}

static tg_status forward(tg_ctx *ctx, const tg_attn_res_forward_args *a)
{
    eager e = eager_begin(ctx);
    const depth d = depth_of(a->v);
    const mat alpha = alpha_of(&e, &d, a);
    if (e.status != TG_OK)
        return eager_end(&e);
    if (a->alpha)
        eager_unary(&e, EAGER_COPY, in_tokens(&d, a->alpha), alpha);
    const mat sum = eager_new(&e, TG_F32, d.tokens, d.v.cols),
              product = eager_new(&e, TG_F32, d.tokens, d.v.cols);
    for (int64_t l = 0; l < d.blocks; l++) {
        const mat to = l == 0 ? sum : product;
        eager_binary(&e, EAGER_MUL, to, block_of(&d, d.v, l), column_of(&d, alpha, l));
        if (l > 0)
            eager_binary(&e, EAGER_ADD, sum, sum, product);
    }
    eager_unary(&e, EAGER_COPY, eager_rows(a->y), sum);
    return eager_end(&e);
}

/* ---- backward ---- */

/* alpha (da - sum alpha da), [R, L]; da = sum of dy v */
static mat score_gradients(eager *e, const depth *d, const tg_attn_res_backward_args *a)
{
    const mat product = eager_new(e, TG_F32, d->tokens, d->v.cols),
              da = eager_new(e, TG_F32, d->tokens, d->blocks);
    for (int64_t l = 0; l < d->blocks; l++) {
        eager_binary(e, EAGER_MUL, product, eager_rows(a->dy), block_of(d, d->v, l));
        eager_reduce_rows(e, EAGER_SUM, column_of(d, da, l), product);
    }
    eager_free(e, product);
    const mat weighed = eager_like(e, da), mean = eager_new(e, TG_F32, d->tokens, 1),
              alpha = in_tokens(d, a->alpha);
    eager_binary(e, EAGER_MUL, weighed, alpha, da);
    eager_reduce_rows(e, EAGER_SUM, mean, weighed);
    eager_free(e, weighed);
    return eager_then_by(e, EAGER_MUL, eager_then_by(e, EAGER_SUB, da, mean), alpha);
}

/* Of one block: dv, and terms = ds n, n = v rstd. */
static mat block_gradient(eager *e, const depth *d, const tg_attn_res_backward_args *a, mat key,
                          mat ds, int64_t l)
{
    const mat r = column_of(d, in_tokens(d, a->rstd), l), v = block_of(d, d->v, l);
    const mat n = eager_new(e, TG_F32, v.rows, v.cols), m = eager_like(e, n),
              product = eager_like(e, n);
    eager_binary(e, EAGER_MUL, n, v, r);
    eager_binary(e, EAGER_MUL, m, column_of(d, ds, l), key);
    eager_binary(e, EAGER_MUL, product, m, n);
    const mat mean = eager_row_mean(e, product);
    eager_binary(e, EAGER_MUL, product, n, mean);
    eager_binary(e, EAGER_SUB, product, m, product);
    eager_binary(e, EAGER_MUL, product, product, r);
    eager_binary(e, EAGER_MUL, m, eager_rows(a->dy), column_of(d, in_tokens(d, a->alpha), l));
    eager_binary(e, EAGER_ADD, block_of(d, eager_rows(a->dv), l), m, product);
    eager_free(e, mean);
    eager_free(e, m);
    eager_free(e, product);
    return eager_then_by(e, EAGER_MUL, n, column_of(d, ds, l));
}

static tg_status backward(tg_ctx *ctx, const tg_attn_res_backward_args *a)
{
    eager e = eager_begin(ctx);
    const depth d = depth_of(a->v);
    const mat key = key_of(&e, a->query, a->weight), ds = score_gradients(&e, &d, a);
    const mat sum = eager_new(&e, TG_F32, 1, d.v.cols), part = eager_like(&e, sum);
    if (e.status != TG_OK)
        return eager_end(&e);
    eager_fill(&e, sum, 0);
    for (int64_t l = 0; l < d.blocks; l++) {
        const mat terms = block_gradient(&e, &d, a, key, ds, l);
        eager_sum_columns(&e, part, terms);
        eager_free(&e, terms);
        eager_binary(&e, EAGER_ADD, sum, sum, part);
    }
    if (a->dquery) {
        eager_binary(&e, EAGER_MUL, part, sum, eager_vector(a->weight));
        eager_put(&e, eager_vector(a->dquery), part, a->accumulate);
    }
    if (a->dweight) {
        eager_binary(&e, EAGER_MUL, part, sum, eager_vector(a->query));
        eager_put(&e, eager_vector(a->dweight), part, a->accumulate);
    }
    return eager_end(&e);
}

UNFUSED_IMPLS(attn_res) = {UNFUSED_IMPL(attn_res_forward, forward),
                           UNFUSED_IMPL(attn_res_backward, backward), TG_IMPLS_END};
