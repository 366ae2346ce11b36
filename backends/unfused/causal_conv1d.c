/* causal_conv1d as an eager framework runs it: gates and activation are a pass each; the
 * convolution is a sum in f32 over taps, each a product and an addition, of one segment after the
 * other.
 */
#include "eager.h"

typedef struct conv {
    eager e;
    int64_t tokens, channels;
    int width, type;
    const int64_t *segments;
    mat taps; /* [K,C] */
} conv;

static conv begin(tg_ctx *ctx, const tg_tensor *x, const tg_tensor *weight,
                  const tg_tensor *segments)
{
    conv c = {.e = eager_begin(ctx), .tokens = x->shape[x->ndim - 2], .type = tg_type_of(x)};
    const int type = tg_type_of(weight);
    c.channels = x->shape[x->ndim - 1];
    c.width = (int)weight->shape[weight->ndim - 1];
    c.segments = tg_data(segments);
    c.taps = eager_new(&c.e, type, c.width, c.channels);
    for (int64_t i = 0; c.e.status == TG_OK && i < c.channels * c.width; i++)
        set_element(c.taps.data, type, i % c.width * c.channels + i / c.width,
                    element_of(tg_data(weight), type, i));
    return c;
}

static mat rows_of(mat m, int64_t first, int64_t count)
{
    return eager_view(element_at(m.data, m.type, first * m.stride), m.type, count, m.cols,
                      m.stride);
}

static mat tap(const conv *c, int back)
{
    return rows_of(c->taps, c->width - 1 - back, 1);
}

/* The row behind the segment that begins at a row. */
static int64_t segment_end(const conv *c, int64_t begin)
{
    const int64_t last = (begin / c->tokens + 1) * c->tokens;
    int64_t end = begin + 1;
    while (end < last && (!c->segments || c->segments[end] == c->segments[begin]))
        end++;
    return end;
}

/* x times a tensor, x itself if there is none. */
static mat times(conv *c, mat x, const tg_tensor *by)
{
    if (!by)
        return x;
    const mat y = eager_new(&c->e, c->type, x.rows, x.cols);
    eager_binary(&c->e, EAGER_MUL, y, x, eager_rows(by));
    return y;
}

/* sum, f32, gets tap times from, rows of one segment, in f32. */
static void add_tap(conv *c, mat sum, mat from, int back)
{
    const mat product = eager_new(&c->e, TG_F32, from.rows, from.cols);
    eager_binary(&c->e, EAGER_MUL, product, from, tap(c, back));
    eager_binary(&c->e, EAGER_ADD, sum, sum, product);
    eager_free(&c->e, product);
}

/* The convolution of x, backwards in time if it is that of a gradient. */
static mat convolve(conv *c, mat x, int backwards, const tg_tensor *bias)
{
    const mat sum = eager_new(&c->e, TG_F32, x.rows, x.cols);
    eager_fill(&c->e, sum, 0);
    for (int64_t row = 0; row < x.rows; row = segment_end(c, row)) {
        const int64_t n = segment_end(c, row) - row;
        for (int back = 0; back < c->width && back < n; back++)
            add_tap(c, rows_of(sum, row + (backwards ? 0 : back), n - back),
                    rows_of(x, row + (backwards ? back : 0), n - back), back);
    }
    if (bias)
        eager_binary(&c->e, EAGER_ADD, sum, sum, eager_vector(bias));
    return eager_then_type(&c->e, c->type, sum);
}

static tg_status forward(tg_ctx *ctx, const tg_causal_conv1d_forward_args *args)
{
    conv c = begin(ctx, args->x, args->weight, args->segments);
    mat v = convolve(&c, times(&c, eager_rows(args->x), args->in_gate), 0, args->bias);
    if (args->silu) {
        const mat s = eager_like(&c.e, v);
        eager_unary(&c.e, EAGER_SIGMOID, s, v);
        v = eager_then_by(&c.e, EAGER_MUL, v, s);
    }
    eager_unary(&c.e, EAGER_COPY, eager_rows(args->y), times(&c, v, args->out_gate));
    return eager_end(&c.e);
}

/* v becomes silu(v), and its result is the derivative there. */
static mat through_silu(conv *c, mat *v)
{
    const mat s = eager_like(&c->e, *v), rest = eager_like(&c->e, *v);
    eager_unary(&c->e, EAGER_SIGMOID, s, *v);
    eager_unary(&c->e, EAGER_NEG, rest, *v);
    mat slope = eager_then_by(&c->e, EAGER_MUL, eager_then(&c->e, EAGER_SIGMOID, rest), *v);
    slope = eager_then_scalar(&c->e, EAGER_ADD, slope, 1);
    slope = eager_then_by(&c->e, EAGER_MUL, slope, s);
    *v = eager_then_by(&c->e, EAGER_MUL, *v, s);
    eager_free(&c->e, s);
    return slope;
}

/* The gradient of a tap: dv times what it was multiplied with, summed over rows. */
static mat tap_gradient(conv *c, mat dv, mat u, int back)
{
    const mat sum = eager_new(&c->e, TG_F32, 1, c->channels);
    const mat product = eager_new(&c->e, TG_F32, dv.rows, c->channels);
    eager_fill(&c->e, product, 0);
    for (int64_t row = 0; row < dv.rows; row = segment_end(c, row)) {
        const int64_t n = segment_end(c, row) - row - back;
        if (n > 0)
            eager_binary(&c->e, EAGER_MUL, rows_of(product, row, n), rows_of(dv, row + back, n),
                         rows_of(u, row, n));
    }
    eager_sum_columns(&c->e, sum, product);
    eager_free(&c->e, product);
    return sum;
}

static void weight_gradient(conv *c, const tg_tensor *dweight, mat dv, mat u, int64_t accumulate)
{
    for (int back = 0; dweight && back < c->width; back++) {
        const mat sum = tap_gradient(c, dv, u, back);
        char *to = tg_data(dweight);
        const int type = tg_type_of(dweight);
        for (int64_t i = 0; c->e.status == TG_OK && i < c->channels; i++) {
            const int64_t at = (i + 1) * c->width - 1 - back;
            set_element(to, type, at,
                        element_of(sum.data, TG_F32, i) +
                            (accumulate ? element_of(to, type, at) : 0));
        }
        eager_free(&c->e, sum);
    }
}

static tg_status backward(tg_ctx *ctx, const tg_causal_conv1d_backward_args *args)
{
    conv c = begin(ctx, args->x, args->weight, args->segments);
    const mat x = eager_rows(args->x), dy = eager_rows(args->dy), u = times(&c, x, args->in_gate);
    mat v = convolve(&c, u, 0, args->bias), dv = times(&c, dy, args->out_gate);
    if (args->silu) {
        const mat product = eager_new(&c.e, c.type, x.rows, x.cols);
        eager_binary(&c.e, EAGER_MUL, product, through_silu(&c, &v), dv);
        dv = product;
    }
    if (args->dout_gate)
        eager_binary(&c.e, EAGER_MUL, eager_rows(args->dout_gate), dy, v);
    const mat du = convolve(&c, dv, 1, NULL);
    eager_unary(&c.e, EAGER_COPY, eager_rows(args->dx), times(&c, du, args->in_gate));
    if (args->din_gate)
        eager_binary(&c.e, EAGER_MUL, eager_rows(args->din_gate), du, x);
    weight_gradient(&c, args->dweight, dv, u, args->accumulate);
    if (args->dbias)
        eager_gradient(&c.e, eager_vector(args->dbias), dv, args->accumulate);
    return eager_end(&c.e);
}

UNFUSED_IMPLS(causal_conv1d) = {UNFUSED_IMPL(causal_conv1d_forward, forward),
                                UNFUSED_IMPL(causal_conv1d_backward, backward), TG_IMPLS_END};
