/* fused_neighborhood_attention as an eager framework runs it: attention under a mask, with the S x
 * S scores of all heads in memory, one pass and one temporary a step, the softmax in f32. */
#include <math.h>

#include "eager.h"

typedef struct attention {
    eager e;
    const tg_tensor *q, *k, *v;
    int64_t all, heads, length; /* all: heads of all batches */
    int64_t dilation, half;
    double scale;
    int type;
} attention;

/* Scores of so many elements: beyond it this way of computing has no memory. */
static const int64_t most_scores = (int64_t)1 << 28;

static int accepts(const tg_tensor *q)
{
    const int64_t heads = q->shape[0] * q->shape[1], length = q->shape[2];
    return length <= 32768 && (heads == 0 || length * length <= most_scores / heads);
}

static attention begin(tg_ctx *ctx, const tg_tensor *q, const tg_tensor *k, const tg_tensor *v,
                       int64_t kernel_size, int64_t dilation, double scale)
{
    attention a = {.e = eager_begin(ctx), .q = q, .k = k, .v = v};
    a.heads = q->shape[1];
    a.all = q->shape[0] * a.heads;
    a.length = q->shape[2];
    a.dilation = dilation;
    a.half = kernel_size / 2;
    a.scale = scale != 0 ? scale : q->shape[3] > 0 ? 1 / sqrt((double)q->shape[3]) : 1;
    a.type = tg_type_of(q);
    return a;
}

/* One head of [B,H,S,D]. */
static mat head_of(const attention *a, const tg_tensor *t, int64_t head)
{
    const int64_t at = head / a->heads * tg_stride(t, 0) + head % a->heads * tg_stride(t, 1);
    return eager_view(element_at(tg_data(t), a->type, at), a->type, a->length, t->shape[3],
                      tg_stride(t, 2));
}

/* One head's part of [B H S, cols]. */
static mat part_of(const attention *a, mat x, int64_t head)
{
    return eager_view(element_at(x.data, x.type, head * a->length * x.stride), x.type, a->length,
                      x.cols, x.stride);
}

/* ---- the scores of all heads ---- */

static mat new_scores(attention *a, int type)
{
    return eager_new(&a->e, type, a->all * a->length, a->length);
}

/* 0 where a query sees a key, -inf elsewhere, in f32 */
static void mask_rows(void *arg, int64_t first, int64_t end, int worker)
{
    (void)worker;
    const attention *a = ((void **)arg)[0];
    float *mask = ((void **)arg)[1];
    for (int64_t i = first; i < end; i++)
        for (int64_t j = 0; j < a->length; j++) {
            const int64_t distance = i < j ? j - i : i - j;
            mask[i * a->length + j] =
                distance % a->dilation == 0 && distance / a->dilation <= a->half ? 0 : -INFINITY;
        }
}

static mat mask_step(attention *a, mat x)
{
    mat mask = eager_new(&a->e, TG_F32, a->length, a->length);
    if (a->e.status == TG_OK)
        unfused_host->parallel_for(a->e.ctx, a->length, 65536 / a->length + 1, mask_rows,
                                   (void *[]){a, mask.data});
    const mat y = new_scores(a, x.type);
    for (int64_t i = 0; i < a->all; i++)
        eager_binary(&a->e, EAGER_ADD, part_of(a, y, i), part_of(a, x, i), mask);
    eager_free(&a->e, mask);
    eager_free(&a->e, x);
    return y;
}

/* x y^T of every head */
static mat products_of(attention *a, const tg_tensor *x, const tg_tensor *y)
{
    const mat out = new_scores(a, a->type);
    for (int64_t i = 0; i < a->all; i++)
        eager_multiply(&a->e, part_of(a, out, i), head_of(a, x, i), 0, head_of(a, y, i), 1, 0);
    return out;
}

/* out = op(p) x of every head */
static void weigh(attention *a, const tg_tensor *out, mat p, int trans, const tg_tensor *x)
{
    for (int64_t i = 0; i < a->all; i++)
        eager_multiply(&a->e, head_of(a, out, i), part_of(a, p, i), trans, head_of(a, x, i), 0, 0);
}

/* scale q k^T + mask, in f32 */
static mat scores_of(attention *a)
{
    const mat x = eager_then_scalar(&a->e, EAGER_MUL, products_of(a, a->q, a->k), a->scale);
    return mask_step(a, eager_then_type(&a->e, TG_F32, x));
}

/* ---- forward ---- */

static int accepts_forward(const tg_fused_neighborhood_attention_forward_args *args)
{
    return accepts(args->q);
}

static tg_status forward(tg_ctx *ctx, const tg_fused_neighborhood_attention_forward_args *args)
{
    attention a =
        begin(ctx, args->q, args->k, args->v, args->kernel_size, args->dilation, args->scale);
    if (a.all * a.length == 0)
        return eager_end(&a.e);
    const mat lse =
        args->lse ? eager_column(args->lse) : eager_new(&a.e, TG_F32, a.all * a.length, 1);
    const mat p = eager_softmax(&a.e, scores_of(&a), lse);
    weigh(&a, args->y, eager_then_type(&a.e, a.type, p), 0, args->v);
    return eager_end(&a.e);
}

/* ---- backward: the scores again, since the forward saved only lse ---- */

static int accepts_backward(const tg_fused_neighborhood_attention_backward_args *args)
{
    return accepts(args->q);
}

static tg_status backward(tg_ctx *ctx, const tg_fused_neighborhood_attention_backward_args *args)
{
    attention a =
        begin(ctx, args->q, args->k, args->v, args->kernel_size, args->dilation, args->scale);
    if (a.all * a.length == 0)
        return eager_end(&a.e);
    const mat shifted = eager_then_by(&a.e, EAGER_SUB, scores_of(&a), eager_column(args->lse));
    const mat p = eager_then_type(&a.e, a.type, eager_then(&a.e, EAGER_EXP, shifted));
    weigh(&a, args->dv, p, 1, args->dy);
    const mat dp = products_of(&a, args->dy, args->v), product = new_scores(&a, TG_F32),
              mean = eager_new(&a.e, TG_F32, dp.rows, 1);
    eager_binary(&a.e, EAGER_MUL, product, p, dp);
    eager_reduce_rows(&a.e, EAGER_SUM, mean, product);
    eager_free(&a.e, product);
    mat ds = eager_then_by(&a.e, EAGER_SUB, dp, mean);
    ds = eager_then_by(&a.e, EAGER_MUL, ds, p);
    eager_free(&a.e, p);
    ds = eager_then_scalar(&a.e, EAGER_MUL, ds, a.scale);
    weigh(&a, args->dq, ds, 0, args->k);
    weigh(&a, args->dk, ds, 1, args->q);
    return eager_end(&a.e);
}

UNFUSED_IMPLS(fused_neighborhood_attention) = {
    UNFUSED_IMPL_IF(fused_neighborhood_attention_forward, accepts_forward, forward),
    UNFUSED_IMPL_IF(fused_neighborhood_attention_backward, accepts_backward, backward),
    TG_IMPLS_END};
