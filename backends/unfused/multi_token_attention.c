/* multi_token_attention as an eager framework runs it: whole matrices under a mask, one pass and
 * one temporary a step, the softmax in f32; the convolution is a sum in f32 over taps, each a
 * product and an addition.
 */
#include <math.h>

#include "eager.h"

typedef struct attention {
    eager e;
    int64_t batch, in, out, length;
    int64_t groups, width, dilation, above, before;
    int type;
    mat weight; /* [1, O I K K] */
    mat lower;  /* [L,L], 1 on and below the diagonal, 0 above it */
} attention;

static attention begin(tg_ctx *ctx, const tg_tensor *probs, const tg_tensor *weight, int64_t groups,
                       int64_t dilation, int64_t padding, int64_t causal_queries)
{
    attention a = {.e = eager_begin(ctx), .batch = probs->shape[0], .in = probs->shape[1]};
    a.out = weight->shape[0];
    a.length = probs->shape[2];
    a.groups = groups;
    a.width = weight->shape[3];
    a.dilation = dilation;
    a.before = padding;
    a.above = causal_queries ? (a.width - 1) * dilation : padding;
    a.type = tg_type_of(probs);
    a.weight = eager_view(tg_data(weight), tg_type_of(weight), 1, tg_numel(weight), 1);
    a.lower = eager_new(&a.e, TG_F32, a.length, a.length);
    for (int64_t i = 0; a.e.status == TG_OK && i < a.length * a.length; i++)
        ((float *)a.lower.data)[i] = i % a.length <= i / a.length;
    return a;
}

static mat rows_of(mat m, int64_t first, int64_t count)
{
    return eager_view(element_at(m.data, m.type, first * m.stride), m.type, count, m.cols,
                      m.stride);
}

static mat channel_of(const attention *a, mat m, int64_t channel)
{
    return rows_of(m, channel * a->length, a->length);
}

static mat new_channels(attention *a, int type, int64_t channels)
{
    return eager_new(&a->e, type, channels * a->length, a->length);
}

/* Every channel times the mask. */
static void mask_channels(attention *a, mat out, mat x)
{
    for (int64_t i = 0; i * a->length < x.rows; i++)
        eager_binary(&a->e, EAGER_MUL, channel_of(a, out, i), channel_of(a, x, i), a->lower);
}

/* ---- the convolution ---- */

/* A tap: which channels it joins, and how far apart the elements are. */
typedef struct tap {
    int64_t in, out, at; /* at: in the weight */
    int64_t down, right; /* from an element of the result to one of probs */
} tap;

static int64_t taps_of(const attention *a)
{
    return a->batch * a->weight.cols;
}

static tap tap_of(const attention *a, int64_t index)
{
    const int64_t entry = index / a->weight.cols, at = index % a->weight.cols, k = a->width;
    const int64_t ins = a->in / a->groups, o = at / (k * k) / ins, c = at / (k * k) % ins;
    return (tap){.in = entry * a->in + o / (a->out / a->groups) * ins + c,
                 .out = entry * a->out + o,
                 .at = at,
                 .down = at / k % k * a->dilation - a->above,
                 .right = at % k * a->dilation - a->before};
}

/* The part of a channel whose elements have a partner `down` and `right` of them. */
static mat part_of(const attention *a, mat m, int64_t channel, int64_t down, int64_t right)
{
    const int64_t row = down < 0 ? -down : 0, column = right < 0 ? -right : 0;
    const int64_t rows = a->length - (down < 0 ? -down : down);
    const int64_t columns = a->length - (right < 0 ? -right : right);
    return eager_view(element_at(m.data, m.type, (channel * a->length + row) * m.stride + column),
                      m.type, rows > 0 && columns > 0 ? rows : 0,
                      rows > 0 && columns > 0 ? columns : 0, m.stride);
}

/* sum, f32, gets the tap's weight times from. */
static void add_tap(attention *a, mat sum, mat from, int64_t at)
{
    if (from.rows == 0)
        return;
    const mat product = eager_new(&a->e, TG_F32, from.rows, from.cols);
    eager_scalar(&a->e, EAGER_MUL, product, from, element_of(a->weight.data, a->weight.type, at));
    eager_binary(&a->e, EAGER_ADD, sum, sum, product);
    eager_free(&a->e, product);
}

/* ---- forward ---- */

/* Probabilities of all channels, in f32. */
static mat probabilities(attention *a, const tg_tensor *scores, int sparse)
{
    const mat x = eager_rows(scores);
    mat masked = new_channels(a, TG_F32, a->batch * a->in);
    for (int64_t i = 0; a->e.status == TG_OK && i < x.rows * a->length; i++) {
        const int64_t row = i / a->length, j = i % a->length;
        ((float *)masked.data)[i] = j <= row % a->length
                                        ? (float)element_of(x.data, x.type, row * x.stride + j)
                                        : -INFINITY;
    }
    if (!sparse)
        return eager_softmax(&a->e, masked, eager_new(&a->e, TG_F32, x.rows, 1));
    const mat p = eager_like(&a->e, masked);
    view from, to;
    if (a->e.status == TG_OK)
        a->e.status = CALL(a->e.ctx, sparsemax_forward, .x = eager_tensor(&from, masked),
                           .y = eager_tensor(&to, p));
    return p;
}

static tg_status forward(tg_ctx *ctx, const tg_multi_token_attention_forward_args *args)
{
    attention a = begin(ctx, args->probs, args->weight, args->groups, args->dilation, args->padding,
                        args->causal_queries);
    if (a.batch * a.length == 0)
        return eager_end(&a.e);
    const mat p = eager_rows(args->probs);
    eager_unary(&a.e, EAGER_COPY, p, probabilities(&a, args->scores, args->sparse != 0));
    const mat y = new_channels(&a, TG_F32, a.batch * a.out);
    eager_fill(&a.e, y, 0);
    for (int64_t i = 0; i < taps_of(&a); i++) {
        const tap t = tap_of(&a, i);
        add_tap(&a, part_of(&a, y, t.out, t.down, t.right), part_of(&a, p, t.in, -t.down, -t.right),
                t.at);
    }
    for (int64_t o = 0; args->bias && o < a.batch * a.out; o++)
        eager_scalar(&a.e, EAGER_ADD, channel_of(&a, y, o), channel_of(&a, y, o),
                     element_of(tg_data(args->bias), tg_type_of(args->bias), o % a.out));
    mask_channels(&a, eager_rows(args->y), eager_then_type(&a.e, a.type, y));
    return eager_end(&a.e);
}

/* ---- backward ---- */

/* part (dp - mean), with part p and mean the sum of p dp; or those of sparsemax. */
static void score_gradients(attention *a, mat dscores, mat p, mat dp, int sparse)
{
    const mat sum = eager_new(&a->e, TG_F32, p.rows, 1), product = eager_like(&a->e, dp);
    const mat part = eager_copy(&a->e, TG_F32, p);
    if (sparse)
        eager_scalar(&a->e, EAGER_GREATER, part, part, 0);
    eager_binary(&a->e, EAGER_MUL, product, part, dp);
    eager_reduce_rows(&a->e, EAGER_SUM, sum, product);
    if (sparse) {
        const mat count = eager_new(&a->e, TG_F32, p.rows, 1);
        eager_reduce_rows(&a->e, EAGER_SUM, count, part);
        eager_binary(&a->e, EAGER_DIV, sum, sum, count);
    }
    eager_binary(&a->e, EAGER_SUB, product, dp, sum);
    eager_binary(&a->e, EAGER_MUL, product, product, part);
    mask_channels(a, dscores, eager_then_type(&a->e, a->type, product));
}

/* The sum of all elements of a product, which is freed. */
static double sum_of(attention *a, mat product)
{
    const mat row = eager_new(&a->e, TG_F32, 1, product.cols), one = eager_new(&a->e, TG_F32, 1, 1);
    eager_sum_columns(&a->e, row, product);
    eager_reduce_rows(&a->e, EAGER_SUM, one, row);
    const double sum = a->e.status == TG_OK ? *(const float *)one.data : 0;
    eager_free(&a->e, product);
    eager_free(&a->e, row);
    eager_free(&a->e, one);
    return sum;
}

/* Sums of `cols` numbers, [1, cols] in f32, go or are added to a gradient. */
static void put_gradient(attention *a, const tg_tensor *out, mat sums, int64_t accumulate)
{
    eager_put(&a->e, eager_view(tg_data(out), tg_type_of(out), 1, sums.cols, sums.cols), sums,
              accumulate);
}

static void weight_gradient(attention *a, const tg_tensor *dweight, mat g, mat p,
                            int64_t accumulate)
{
    const mat sums = eager_new(&a->e, TG_F32, 1, a->weight.cols);
    eager_fill(&a->e, sums, 0);
    for (int64_t i = 0; a->e.status == TG_OK && i < taps_of(a); i++) {
        const tap t = tap_of(a, i);
        const mat from = part_of(a, g, t.out, t.down, t.right);
        if (from.rows == 0)
            continue;
        const mat product = eager_new(&a->e, TG_F32, from.rows, from.cols);
        eager_binary(&a->e, EAGER_MUL, product, from, part_of(a, p, t.in, -t.down, -t.right));
        ((float *)sums.data)[t.at] += (float)sum_of(a, product);
    }
    put_gradient(a, dweight, sums, accumulate);
}

static void bias_gradient(attention *a, const tg_tensor *dbias, mat g, int64_t accumulate)
{
    const mat sums = eager_new(&a->e, TG_F32, 1, a->out);
    eager_fill(&a->e, sums, 0);
    for (int64_t o = 0; a->e.status == TG_OK && o < a->batch * a->out; o++)
        ((float *)sums.data)[o % a->out] +=
            (float)sum_of(a, eager_copy(&a->e, TG_F32, channel_of(a, g, o)));
    put_gradient(a, dbias, sums, accumulate);
}

static tg_status backward(tg_ctx *ctx, const tg_multi_token_attention_backward_args *args)
{
    attention a = begin(ctx, args->probs, args->weight, args->groups, args->dilation, args->padding,
                        args->causal_queries);
    const mat p = eager_rows(args->probs);
    const mat g = new_channels(&a, a.type, a.batch * a.out);
    const mat dp = new_channels(&a, TG_F32, a.batch * a.in);
    if (a.batch * a.length > 0) {
        mask_channels(&a, g, eager_rows(args->dy));
        eager_fill(&a.e, dp, 0);
        for (int64_t i = 0; i < taps_of(&a); i++) {
            const tap t = tap_of(&a, i);
            add_tap(&a, part_of(&a, dp, t.in, -t.down, -t.right),
                    part_of(&a, g, t.out, t.down, t.right), t.at);
        }
        score_gradients(&a, eager_rows(args->dscores), p, dp, args->sparse != 0);
    }
    if (args->dweight)
        weight_gradient(&a, args->dweight, g, p, args->accumulate);
    if (args->dbias)
        bias_gradient(&a, args->dbias, g, args->accumulate);
    return eager_end(&a.e);
}

UNFUSED_IMPLS(multi_token_attention) = {UNFUSED_IMPL(multi_token_attention_forward, forward),
                                        UNFUSED_IMPL(multi_token_attention_backward, backward),
                                        TG_IMPLS_END};
