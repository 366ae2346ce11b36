/* causal_conv1d, plainly: the definition, token by token, in double. */
#include <math.h>

#include "causal_conv1d.h"

/* Element i of a row of a tensor, or 1 if it is missing. */
static double get(const tg_tensor *t, int64_t row, int64_t i)
{
    const tg_rows rows = tg_rows_of(t);
    return t ? tg_get(rows.data, rows.type, row * rows.stride + i) : 1;
}

static void set(const tg_tensor *t, int64_t row, int64_t i, double value)
{
    const tg_rows rows = tg_rows_of(t);
    if (t)
        tg_set(rows.data, rows.type, row * rows.stride + i, value);
}

static double weight_at(const conv_shape *s, const tg_tensor *weight, int64_t channel, int tap)
{
    return tg_get(tg_data(weight), tg_type_of(weight), channel * s->width + tap);
}

/* What is convolved. */
static double input(const tg_tensor *x, const tg_tensor *in_gate, int64_t row, int64_t i)
{
    return get(x, row, i) * get(in_gate, row, i);
}

/* 1 if all from row `earlier` to row `later` is one segment. */
static int together(const conv_shape *s, int64_t earlier, int64_t later)
{
    for (int64_t row = earlier + 1; row <= later; row++)
        if (!conv_joined(s, row))
            return 0;
    return 1;
}

/* The convolution at a token: tap k is of the token `width - 1 - k` before it. */
static double convolve(const conv_shape *s, const tg_tensor *x, const tg_tensor *in_gate,
                       const tg_tensor *weight, const tg_tensor *bias, int64_t row, int64_t i)
{
    double sum = bias ? tg_get(tg_data(bias), tg_type_of(bias), i) : 0;
    for (int k = 0; k < s->width; k++) {
        const int64_t from = row - (s->width - 1 - k);
        if (from >= 0 && together(s, from, row))
            sum += weight_at(s, weight, i, k) * input(x, in_gate, from, i);
    }
    return sum;
}

static double silu(double v)
{
    return v / (1 + exp(-v));
}

static double silu_slope(double v)
{
    const double s = 1 / (1 + exp(-v)), rest = 1 / (1 + exp(v));
    return s * (1 + v * rest);
}

static tg_status forward(tg_ctx *ctx, const tg_causal_conv1d_forward_args *a)
{
    (void)ctx;
    const conv_shape s = conv_shape_of(a->x, a->weight, a->segments);
    for (int64_t row = 0; row < s.rows; row++)
        for (int64_t i = 0; i < s.channels; i++) {
            const double v = convolve(&s, a->x, a->in_gate, a->weight, a->bias, row, i);
            set(a->y, row, i, get(a->out_gate, row, i) * (a->silu ? silu(v) : v));
        }
    return TG_OK;
}

/* The gradient at the convolution's result. */
static double gradient(const tg_causal_conv1d_backward_args *a, const conv_shape *s, int64_t row,
                       int64_t i)
{
    const double g = get(a->dy, row, i) * get(a->out_gate, row, i);
    if (!a->silu)
        return g;
    return g * silu_slope(convolve(s, a->x, a->in_gate, a->weight, a->bias, row, i));
}

/* dx, din_gate and dout_gate of one element. */
static void input_gradients(const tg_causal_conv1d_backward_args *a, const conv_shape *s,
                            int64_t row, int64_t i)
{
    double du = 0;
    for (int k = 0; k < s->width; k++) {
        const int64_t to = row + (s->width - 1 - k);
        if (to < s->rows && together(s, row, to))
            du += weight_at(s, a->weight, i, k) * gradient(a, s, to, i);
    }
    set(a->dx, row, i, du * get(a->in_gate, row, i));
    if (a->din_gate)
        set(a->din_gate, row, i, du * get(a->x, row, i));
    if (a->dout_gate) {
        const double v = convolve(s, a->x, a->in_gate, a->weight, a->bias, row, i);
        set(a->dout_gate, row, i, get(a->dy, row, i) * (a->silu ? silu(v) : v));
    }
}

static void add_gradient(const tg_tensor *t, int64_t i, double value, int64_t accumulate)
{
    if (t)
        tg_set(tg_data(t), tg_type_of(t), i,
               value + (accumulate ? tg_get(tg_data(t), tg_type_of(t), i) : 0));
}

/* dweight and dbias of a channel. */
static void parameter_gradients(const tg_causal_conv1d_backward_args *a, const conv_shape *s,
                                int64_t i)
{
    double dbias = 0, dweight[CONV_MOST] = {0};
    for (int64_t row = 0; row < s->rows; row++) {
        const double dv = gradient(a, s, row, i);
        dbias += dv;
        for (int k = 0; k < s->width; k++) {
            const int64_t from = row - (s->width - 1 - k);
            if (from >= 0 && together(s, from, row))
                dweight[k] += dv * input(a->x, a->in_gate, from, i);
        }
    }
    for (int k = 0; k < s->width; k++)
        add_gradient(a->dweight, i * s->width + k, dweight[k], a->accumulate);
    add_gradient(a->dbias, i, dbias, a->accumulate);
}

static tg_status backward(tg_ctx *ctx, const tg_causal_conv1d_backward_args *a)
{
    (void)ctx;
    const conv_shape s = conv_shape_of(a->x, a->weight, a->segments);
    for (int64_t i = 0; i < s.channels; i++)
        parameter_gradients(a, &s, i);
    for (int64_t row = 0; row < s.rows; row++)
        for (int64_t i = 0; i < s.channels; i++)
            input_gradients(a, &s, row, i);
    return TG_OK;
}

TG_REF_IMPLS(causal_conv1d) = {TG_REF_IMPL(causal_conv1d_forward, forward),
                               TG_REF_IMPL(causal_conv1d_backward, backward), TG_IMPLS_END};
