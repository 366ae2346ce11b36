/* From log-probabilities of sequences to losses, and back to their gradients: the definition of all
 * loss types, in double. preference_loss_cpu.c has a faster one.
 */
#include <math.h>

#include "preference_loss.h"

/* ---- the logistic function, such that NaN is carried ---- */

static double logistic(double x)
{
    const double e = exp(-fabs(x));
    return (x < 0 ? e : 1) / (1 + e);
}

static double log_logistic(double x)
{
    return (x < 0 ? x : 0) - log1p(exp(-fabs(x)));
}

/* ---- losses of the difference of two rewards ---- */

/* A function of x, and its derivative. */
typedef struct curve {
    double loss, slope;
} curve;

typedef curve curve_fn(const preference *p, double x);

static curve sigmoid(const preference *p, double x)
{
    const double e = p->smoothing;
    return (curve){-(1 - e) * log_logistic(x) - e * log_logistic(-x),
                   e * logistic(x) - (1 - e) * logistic(-x)};
}

static curve hinge(const preference *p, double x)
{
    (void)p;
    if (x >= 1)
        return (curve){0, 0};
    return (curve){1 - x, x < 1 ? -1 : x};
}

/* s ln(s / q): 0 where s is. */
static double against(double s, double log_s, double q)
{
    return s == 0 ? 0 : s * (log_s - log(q));
}

/* The divergence of (s(x), s(-x)) from (1 - e, e). */
static curve exo_pair(const preference *p, double x)
{
    const double e = p->smoothing, up = logistic(x), down = logistic(-x);
    const double both = up * down;
    return (curve){against(up, log_logistic(x), 1 - e) + against(down, log_logistic(-x), e),
                   both == 0 ? 0 : both * (x - log1p(-e) + log(e))};
}

static curve robust(const preference *p, double x)
{
    const double e = p->smoothing, scale = 1 / (1 - 2 * e);
    return (curve){scale * (e * log_logistic(-x) - (1 - e) * log_logistic(x)),
                   -scale * (e * logistic(x) + (1 - e) * logistic(-x))};
}

/* exp(-x) overflows where its factor, which is then as small, does not let it: both are one
 * exponential. */
static curve discopop(const preference *p, double x)
{
    const double z = x / p->tau, m = logistic(z), rest = logistic(-z), by = m * rest / p->tau;
    const double decay = exp(log_logistic(z) - x);
    return (curve){decay - rest * log_logistic(x),
                   by * log_logistic(x) - rest * logistic(-x) + decay * (rest / p->tau - 1)};
}

/* ---- losses of two sequences, or of one ---- */

typedef preference_pair pair;

/* Of the i-th pair, with a and b log-probabilities less those of the reference. */
typedef pair pair_fn(const preference *p, double a, double b, int64_t i);

static double difference(const preference *p, double a, double b)
{
    return p->beta * (a - b) - p->gamma;
}

static pair nca_pair(const preference *p, double a, double b, int64_t i)
{
    (void)i;
    const double u = p->beta * a, v = p->beta * b;
    return (pair){-log_logistic(u) - (log_logistic(-u) + log_logistic(-v)) / 2,
                  difference(p, a, b),
                  {p->beta * (logistic(u) / 2 - logistic(-u)), p->beta * logistic(v) / 2}};
}

static pair bco_pair(const preference *p, double a, double b, int64_t i)
{
    (void)i;
    const double u = p->beta * a, v = p->beta * b;
    return (pair){-log_logistic(u) - log_logistic(-v),
                  difference(p, a, b),
                  {-p->beta * logistic(-u), p->beta * logistic(v)}};
}

static pair sppo_hard(const preference *p, double a, double b, int64_t i)
{
    (void)i;
    const double u = a - 0.5 / p->beta, v = b + 0.5 / p->beta;
    return (pair){u * u + v * v, difference(p, a, b), {2 * u, 2 * v}};
}

static pair apo_zero(const preference *p, double a, double b, int64_t i)
{
    (void)i;
    const double u = p->beta * a, v = p->beta * b;
    return (pair){logistic(-u) + logistic(v),
                  difference(p, a, b),
                  {-p->beta * logistic(u) * logistic(-u), p->beta * logistic(v) * logistic(-v)}};
}

static pair apo_down(const preference *p, double a, double b, int64_t i)
{
    (void)i;
    const double u = p->beta * a, x = difference(p, a, b);
    const double of_u = p->beta * logistic(u) * logistic(-u);
    const double of_x = p->beta * logistic(x) * logistic(-x);
    return (pair){logistic(u) + logistic(-x), x, {of_u - of_x, of_x}};
}

/* ln(1 - exp(c)) for c < 0 */
static double log_without(double c)
{
    return c > -0.6931471805599453 ? log(-expm1(c)) : log1p(-exp(c));
}

/* A sequence that is certain has no finite odds: it counts as nearly so. */
static double uncertain(double c)
{
    return c > -0x1p-24 ? -0x1p-24 : c;
}

static pair orpo(const preference *p, double a, double b, int64_t i)
{
    (void)i;
    const double c = uncertain(a), r = uncertain(b);
    const double odds = c - r - (log_without(c) - log_without(r));
    const double slope = p->beta * logistic(-odds);
    return (pair){-p->beta * log_logistic(odds), odds, {slope / expm1(c), -slope / expm1(r)}};
}

static double element(const tg_tensor *t, int64_t i)
{
    return t ? tg_get(tg_data(t), tg_type_of(t), tg_numel(t) == 1 ? 0 : i) : 0;
}

static pair kto(const preference *p, double a, double b, int64_t i)
{
    (void)b;
    const double sign = element(p->preferred, i) != 0 ? 1 : -1;
    const double u = sign * p->beta * (a - element(p->kl, i));
    return (pair){logistic(-u), u, {-sign * p->beta * logistic(u) * logistic(-u)}};
}

static const struct {
    curve_fn *of_difference; /* or */
    pair_fn *of_pair;
} types[] = {
    [TG_DPO_SIGMOID] = {.of_difference = sigmoid},
    [TG_DPO_HINGE] = {.of_difference = hinge},
    [TG_DPO_EXO_PAIR] = {.of_difference = exo_pair},
    [TG_DPO_NCA_PAIR] = {.of_pair = nca_pair},
    [TG_DPO_ROBUST] = {.of_difference = robust},
    [TG_DPO_BCO_PAIR] = {.of_pair = bco_pair},
    [TG_DPO_SPPO_HARD] = {.of_pair = sppo_hard},
    [TG_DPO_APO_ZERO] = {.of_pair = apo_zero},
    [TG_DPO_APO_DOWN] = {.of_pair = apo_down},
    [TG_DPO_DISCOPOP] = {.of_difference = discopop},
    [TG_ORPO] = {.of_pair = orpo},
    [TG_KTO] = {.of_pair = kto},
};

/* ---- the whole ---- */

static void put(const tg_tensor *t, int64_t i, double value)
{
    if (t)
        tg_set(tg_data(t), tg_type_of(t), i, value);
}

/* logp less that of the reference, of sequence i of the chosen (c 0) or the rejected ones. */
static double ratio(const preference *p, int64_t c, int64_t i)
{
    const int64_t at = c * p->count + i;
    if (c >= p->logp->shape[0])
        return 0;
    const double ref = p->ref_logp ? tg_get(tg_data(p->ref_logp), tg_type_of(p->ref_logp), at) : 0;
    return tg_get(tg_data(p->logp), tg_type_of(p->logp), at) - ref;
}

pair preference_pair_of(const preference *p, int64_t i)
{
    const double a = ratio(p, 0, i), b = ratio(p, 1, i);
    if (types[p->type].of_pair)
        return types[p->type].of_pair(p, a, b, i);
    const double x = difference(p, a, b);
    const curve f = types[p->type].of_difference(p, x);
    return (pair){f.loss, x, {p->beta * f.slope, -p->beta * f.slope}};
}

/* What a loss counts in the result. */
double preference_share(const preference *p)
{
    return p->reduction == TG_MEAN && p->count > 0 ? 1 / (double)p->count : 1;
}

tg_status preference_loss_forward(tg_ctx *ctx, const tg_preference_loss_forward_args *args)
{
    (void)ctx;
    const preference p = PREFERENCE_OF(args);
    double sum = 0;
    for (int64_t i = 0; i < p.count; i++) {
        const pair t = preference_pair_of(&p, i);
        sum += t.loss * preference_share(&p);
        if (p.reduction == TG_NONE)
            put(args->loss, i, t.loss);
        for (int64_t c = 0; c < p.logp->shape[0]; c++)
            put(args->rewards, c * p.count + i, p.beta * ratio(&p, c, i));
        put(args->margin, i, t.margin);
    }
    if (p.reduction != TG_NONE)
        put(args->loss, 0, sum);
    return TG_OK;
}

/* dlogp may be logp: each pair is read before it is written. */
tg_status preference_loss_backward(tg_ctx *ctx, const tg_preference_loss_backward_args *args)
{
    (void)ctx;
    const preference p = PREFERENCE_OF(args);
    for (int64_t i = 0; i < p.count; i++) {
        const pair t = preference_pair_of(&p, i);
        const double upstream = preference_share(&p) * (args->dloss ? element(args->dloss, i) : 1);
        for (int64_t c = 0; c < p.logp->shape[0]; c++)
            put(args->dlogp, c * p.count + i, upstream * t.by[c]);
    }
    return TG_OK;
}
