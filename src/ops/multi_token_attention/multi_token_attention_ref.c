/* multi_token_attention, plainly: the definition in double. */
#include <math.h>

#include "multi_token_attention.h"

static double get(const tg_tensor *t, int64_t row, int64_t i)
{
    const tg_rows rows = tg_rows_of(t);
    return tg_get(rows.data, rows.type, row * rows.stride + i);
}

static void set(const tg_tensor *t, int64_t row, int64_t i, double value)
{
    const tg_rows rows = tg_rows_of(t);
    tg_set(rows.data, rows.type, row * rows.stride + i, value);
}

/* ---- probabilities of the first n keys of a row ---- */

static void softmax(const tg_tensor *scores, const tg_tensor *probs, int64_t row, int64_t n)
{
    double most = -INFINITY, sum = 0;
    for (int64_t j = 0; j < n; j++)
        most = fmax(most, get(scores, row, j));
    for (int64_t j = 0; j < n; j++)
        sum += exp(get(scores, row, j) - most);
    for (int64_t j = 0; j < n; j++)
        set(probs, row, j, exp(get(scores, row, j) - most) / sum);
}

/* max(score - tau, 0), with the tau for which they add up to 1: elements that are not above the
 * mean excess of those that are left fall out, until none does. With a NaN all are. */
static void sparsemax(const tg_tensor *scores, const tg_tensor *probs, int64_t row, int64_t n)
{
    double tau = -INFINITY;
    for (int64_t before = -1, kept = 0; kept != before;) {
        double sum = 0;
        before = kept;
        kept = 0;
        for (int64_t j = 0; j < n; j++)
            if (get(scores, row, j) > tau) {
                sum += get(scores, row, j);
                kept++;
            } else if (isnan(get(scores, row, j))) {
                sum = NAN;
            }
        tau = (sum - 1) / (double)kept;
    }
    for (int64_t j = 0; j < n; j++)
        set(probs, row, j, get(scores, row, j) <= tau ? 0 : get(scores, row, j) - tau);
}

/* ---- the convolution ---- */

static double weight_at(const mta_shape *s, const tg_tensor *weight, int64_t o, int64_t c,
                        int64_t a, int64_t b)
{
    const int64_t each = s->in / s->groups;
    return tg_get(tg_data(weight), tg_type_of(weight),
                  ((o * each + c) * s->width + a) * s->width + b);
}

/* Element (i,j) of a channel of one entry of the batch; 0 outside of the matrix. */
static double element(const mta_shape *s, const tg_tensor *t, int64_t channel, int64_t i, int64_t j)
{
    const int inside = i >= 0 && i < s->length && j >= 0 && j < s->length;
    return inside ? get(t, channel * s->length + i, j) : 0;
}

/* The upstream gradient, which is 0 above the diagonal. */
static double upstream(const mta_shape *s, const tg_tensor *dy, int64_t channel, int64_t i,
                       int64_t j)
{
    return j <= i ? element(s, dy, channel, i, j) : 0;
}

static double convolve(const mta_shape *s, const tg_multi_token_attention_forward_args *args,
                       int64_t entry, int64_t o, int64_t i, int64_t j)
{
    const int64_t each = s->in / s->groups, first = o / (s->out / s->groups) * each;
    double sum = args->bias ? tg_get(tg_data(args->bias), tg_type_of(args->bias), o) : 0;
    for (int64_t c = 0; c < each; c++)
        for (int64_t a = 0; a < s->width; a++)
            for (int64_t b = 0; b < s->width; b++)
                sum += weight_at(s, args->weight, o, c, a, b) *
                       element(s, args->probs, entry * s->in + first + c,
                               i + a * s->dilation - s->above, j + b * s->dilation - s->before);
    return sum;
}

static tg_status forward(tg_ctx *ctx, const tg_multi_token_attention_forward_args *args)
{
    (void)ctx;
    const mta_shape s = mta_shape_of(args->probs, args->weight, args->groups, args->dilation,
                                     args->padding, args->causal_queries);
    for (int64_t row = 0; row < s.batch * s.in * s.length; row++) {
        const int64_t n = row % s.length + 1;
        (args->sparse ? sparsemax : softmax)(args->scores, args->probs, row, n);
        for (int64_t j = n; j < s.length; j++)
            set(args->probs, row, j, 0);
    }
    for (int64_t row = 0; row < s.batch * s.out * s.length; row++) {
        const int64_t i = row % s.length, o = row / s.length % s.out;
        for (int64_t j = 0; j < s.length; j++)
            set(args->y, row, j, j <= i ? convolve(&s, args, row / s.length / s.out, o, i, j) : 0);
    }
    return TG_OK;
}

/* ---- backward ---- */

static double dprob(const mta_shape *s, const tg_multi_token_attention_backward_args *args,
                    int64_t entry, int64_t channel, int64_t i, int64_t j)
{
    const int64_t in = s->in / s->groups, out = s->out / s->groups, group = channel / in;
    double sum = 0;
    for (int64_t o = group * out; o < (group + 1) * out; o++)
        for (int64_t a = 0; a < s->width; a++)
            for (int64_t b = 0; b < s->width; b++)
                sum += weight_at(s, args->weight, o, channel % in, a, b) *
                       upstream(s, args->dy, entry * s->out + o, i - a * s->dilation + s->above,
                                j - b * s->dilation + s->before);
    return sum;
}

/* p (dp - sum(p dp)) of softmax; dp less its mean over what is above 0 of sparsemax. */
static void score_gradients(const mta_shape *s, const tg_multi_token_attention_backward_args *args,
                            int64_t row)
{
    const int64_t i = row % s->length, channel = row / s->length % s->in;
    const int64_t entry = row / s->length / s->in;
    double sum = 0, count = 0;
    for (int64_t j = 0; j <= i; j++) {
        const double p = get(args->probs, row, j), part = args->sparse && p > 0 ? 1 : p;
        count += part;
        sum += part * dprob(s, args, entry, channel, i, j);
    }
    const double mean = args->sparse ? sum / count : sum;
    for (int64_t j = 0; j < s->length; j++) {
        const double p = get(args->probs, row, j), part = args->sparse && p > 0 ? 1 : p;
        set(args->dscores, row, j,
            j <= i ? part * (dprob(s, args, entry, channel, i, j) - mean) : 0);
    }
}

static void add_gradient(const tg_tensor *t, int64_t i, double value, int64_t accumulate)
{
    tg_set(tg_data(t), tg_type_of(t), i,
           value + (accumulate ? tg_get(tg_data(t), tg_type_of(t), i) : 0));
}

/* dweight[o,c,a,b]; the gradient of the bias for c < 0. */
static double parameter_gradient(const mta_shape *s,
                                 const tg_multi_token_attention_backward_args *args, int64_t o,
                                 int64_t c, int64_t a, int64_t b)
{
    const int64_t each = s->in / s->groups, first = o / (s->out / s->groups) * each;
    double sum = 0;
    for (int64_t entry = 0; entry < s->batch; entry++)
        for (int64_t i = 0; i < s->length; i++)
            for (int64_t j = 0; j <= i; j++)
                sum += get(args->dy, (entry * s->out + o) * s->length + i, j) *
                       (c < 0 ? 1
                              : element(s, args->probs, entry * s->in + first + c,
                                        i + a * s->dilation - s->above,
                                        j + b * s->dilation - s->before));
    return sum;
}

static tg_status backward(tg_ctx *ctx, const tg_multi_token_attention_backward_args *args)
{
    (void)ctx;
    const mta_shape s = mta_shape_of(args->probs, args->weight, args->groups, args->dilation,
                                     args->padding, args->causal_queries);
    const int64_t width = s.width, each = s.in / s.groups;
    for (int64_t row = 0; row < s.batch * s.in * s.length; row++)
        score_gradients(&s, args, row);
    for (int64_t k = 0; args->dweight && k < s.out * each * width * width; k++)
        add_gradient(args->dweight, k,
                     parameter_gradient(&s, args, k / width / width / each,
                                        k / width / width % each, k / width % width, k % width),
                     args->accumulate);
    for (int64_t o = 0; args->dbias && o < s.out; o++)
        add_gradient(args->dbias, o, parameter_gradient(&s, args, o, -1, 0, 0), args->accumulate);
    return TG_OK;
}

TG_REF_IMPLS(multi_token_attention) = {TG_REF_IMPL(multi_token_attention_forward, forward),
                                       TG_REF_IMPL(multi_token_attention_backward, backward),
                                       TG_IMPLS_END};
