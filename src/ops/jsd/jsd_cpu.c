/* jsd on the CPU: one pass. Backward is forward without its sums. */
#include "rows/losses.h"

/* Constants of the loops. */
typedef struct weights {
    vf beta, rest; /* rest: 1 - beta */
    vf log_beta, log_rest;
    vf scale; /* of the gradient; for a mixture 1 - beta and the unit are in it */
} weights;

/* ---- losses, and gradients before their scale; for a mixture both are in units ---- */

/* Probabilities in mixtures are in units of 2^-60 and 0 below 2^-126: products with them are
 * subnormal, and slow, only where the gradient is. */
#define UNIT 0x1p-60

/* weight * logarithm; nothing if the weight is 0 */
SIMD_INLINE vf product(vf weight, vf logarithm)
{
    const vf zero = v_set(0.0f);
    return v_select(weight == zero, zero, weight * logarithm);
}

SIMD_INLINE vf probability(vf log_p)
{
    return v_exp_from(log_p, v_origin_at(0.0f)) * v_set((float)(1 / UNIT));
}

/* What follows from l = log m, m = 1 + shift: its logarithm, the loss over E, and log M - log E. */
typedef struct logs {
    vf l, loss, of_m;
} logs;

SIMD_INLINE logs weighed(vf n, vf2 power, vf w, vf r, vf log_r)
{
    const vi mostly = w > r, from_smaller = mostly & (power.a > r);
    const vi from_rest = mostly & ~from_smaller;
    const vf zero = v_set(0.0f), one = v_set(1.0f), of_smaller = w * power.a;
    const vf quotient = v_select(from_smaller, -r * power.b, of_smaller) *
                        v_recip(v_select(from_smaller, power.a, r));
    const vf shift = w * power.b, m = v_select(from_rest, of_smaller + r, shift + one);
    const vf l = v_log1p(v_select(mostly, quotient, shift)) + v_select(from_rest, log_r, zero);
    const vf loss = v_select(from_smaller, -r, of_smaller) * n - l * m;
    return (logs){l, loss, v_select(from_smaller, n, zero) + l};
}

/* Let E be the larger of the two probabilities, w the weight of the smaller in the mixture and r
 * the other, n <= 0 the difference of the logarithms and t = exp(n). Then M = E m, m = 1 + w (t -
 * 1), and with l the logarithm of m the loss is E (w t n - l m). Where the smaller one makes up
 * most of M, those two are nearly equal; there m is counted from t instead, m = t (1 + r (1 - t)
 * / t), and with l the logarithm of that bracket the loss is E (-r n - l m); and where t is below
 * r, from r: m = r (1 + w t / r), a sum of which 1 - w would have lost the digits. Neither E nor t
 * has to be representable: -1e30 stands for -inf, and log-probabilities more than 200 apart are as
 * good as 200 apart. */
SIMD_INLINE loss_term mixture_terms(vf x, vf y, const weights *by)
{
    const vf lowest = v_set(-1e30f), zero = v_set(0.0f), one = v_set(1.0f);
    const vf a = v_max(lowest, x), b = v_max(lowest, y), d = b - a; /* d < 0: x is larger */
    const vf n = v_max(v_set(-200.0f), v_minus_abs(d));
    const vf2 power = v_exp_expm1(v_max(v_set(-87.0f), n));
    const vf larger = probability(v_max(a, b));
    const logs m =
        weighed(n, power, v_if_negative(d, by->beta, by->rest),
                v_if_negative(d, by->rest, by->beta), v_if_negative(d, by->log_rest, by->log_beta));
    const vf kept = v_select(a < v_set(-87.0f), zero, power.a);
    const vf q = larger * v_if_negative(d, one, kept);
    /* log q - log E is 0 or n */
    return (loss_term){larger * m.loss, q * (v_if_negative(d, zero, n) - m.of_m)};
}

/* -log(1 + u / 2) for u in [-1, 0] or NaN: -u p(u); p: minimax of degree 8, relative error 3.0e-8,
 * odd and even powers side by side */
SIMD_INLINE vf minus_log(vf u)
{
    const vf v = u * u;
    vf odd = v_set(0.005479129031300545f), even = v_set(0.002538924105465412f);
    odd = odd * v + v_set(0.001443274668417871f);
    odd = odd * v + v_set(-0.015415643341839314f);
    odd = odd * v + v_set(-0.125f);
    even = even * v + v_set(0.007879965007305145f);
    even = even * v + v_set(0.007555767893791199f);
    even = even * v + v_set(0.0416792631149292f);
    even = even * v + v_set(0.5f);
    return -u * (odd * u + even);
}

/* Both weights are 1/2. With E, n and t as above and h = log E - log M, the terms over E are h for
 * the larger probability, t (n + h) for the smaller one, and the loss is half their sum: it is
 * given twice. Probabilities below e^-120 are taken for that. */
SIMD_INLINE loss_term even_terms(vf x, vf y)
{
    const vf lowest = v_set(-120.0f);
    const vf a = v_max(lowest, x), b = v_max(lowest, y), d = b - a; /* d < 0: x is larger */
    const vf n = v_max(v_set(-87.0f), v_minus_abs(d));
    const vf2 power = v_exp_expm1(n);
    const vf h = minus_log(power.b), distance = n + h, two = v_set(2.0f);
    const vf larger = v_exp_scaled(v_max(a, b), (float)(1 / UNIT));
    const vf kept = v_select(a < v_set(-87.0f), v_set(0.0f), larger);
    /* h + t (n + h), whose terms nearly cancel where n is small: there t = 1 + u, and n + 2 h is
     * exact. Far from there n cancels in that sum. */
    const vf near = power.b * distance + (h * two + n), far = power.a * distance + h;
    const vf loss = v_select(n < v_set(-1.0f), far, near);
    return (loss_term){larger * loss, kept * v_if_negative(d, h, power.a * distance)};
}

/* ---- the kernels: beta is 0, 1, 1/2, or another between ---- */

SIMD_INLINE loss_term scaled(loss_term t, const weights *by)
{
    return (loss_term){t.loss, t.d * by->scale};
}

SIMD_INLINE loss_term forward_kernel(const void *by, vf x, vf y, vf g)
{
    (void)g;
    const vf p = v_exp_from(y, v_origin_at(0.0f));
    return scaled((loss_term){product(p, y - x), -p}, by);
}

SIMD_INLINE loss_term reverse_kernel(const void *by, vf x, vf y, vf g)
{
    (void)g;
    const vf q = v_exp_from(x, v_origin_at(0.0f)), loss = product(q, x - y);
    return scaled((loss_term){loss, loss + q}, by);
}

SIMD_INLINE loss_term even_kernel(const void *by, vf x, vf y, vf g)
{
    (void)g;
    return scaled(even_terms(x, y), by);
}

SIMD_INLINE loss_term mixture_kernel(const void *by, vf x, vf y, vf g)
{
    (void)g;
    return scaled(mixture_terms(x, y, by), by);
}

/* ---- calls ---- */

typedef struct options {
    float beta, rest, log_beta, log_rest, scale;
} options;

SIMD_INLINE void visit(loss_kernel kernel, const loss_job *j, const loss_span *s, double *sum)
{
    const options *o = j->options;
    const weights by = {v_set(o->beta), v_set(o->rest), v_set(o->log_beta), v_set(o->log_rest),
                        v_set(o->scale)};
    loss_visit(kernel, LOSS_OF_X, (loss_fill){-INFINITY, -INFINITY}, &by, j, s, sum);
}

static void visit_forward(const loss_job *j, const loss_span *s, double *sum)
{
    visit(forward_kernel, j, s, sum);
}

static void visit_reverse(const loss_job *j, const loss_span *s, double *sum)
{
    visit(reverse_kernel, j, s, sum);
}

static void visit_even(const loss_job *j, const loss_span *s, double *sum)
{
    visit(even_kernel, j, s, sum);
}

static void visit_mixture(const loss_job *j, const loss_span *s, double *sum)
{
    visit(mixture_kernel, j, s, sum);
}

static tg_status run(tg_ctx *ctx, const loss_call *c, double beta)
{
    /* kept from 0, where a mixture would be 0 beside a probability of 0 */
    const double inner = fmin(fmax(beta, 0x1p-24), 1 - 0x1p-24);
    const int is_mixture = beta != 0 && beta != 1;
    loss_job j;
    TG_TRY(loss_begin(ctx, c, &j));
    const double scale = j.share * j.upstream * (is_mixture ? (1 - beta) * UNIT : 1);
    j.options = &(options){(float)inner, (float)(1 - inner), (float)log(inner),
                           (float)log1p(-inner), (float)scale};
    loss_run(ctx, &j,
             beta == 0     ? visit_forward
             : beta == 1   ? visit_reverse
             : beta == 0.5 ? visit_even
                           : visit_mixture);
    if (c->loss)
        loss_finish(&j, c->loss, j.share * (beta == 0.5 ? UNIT / 2 : is_mixture ? UNIT : 1));
    return TG_OK;
}

static tg_status forward(tg_ctx *ctx, const tg_jsd_forward_args *args)
{
    const loss_call c = {.x = args->student,
                         .target = args->teacher,
                         .dloss = args->dloss,
                         .d = args->dstudent,
                         .loss = args->loss,
                         .labels = row_labels_of(args->labels, args->ignore_index),
                         .reduction = TG_BATCHMEAN};
    return run(ctx, &c, args->beta);
}

static tg_status backward(tg_ctx *ctx, const tg_jsd_backward_args *args)
{
    const loss_call c = {.x = args->student,
                         .target = args->teacher,
                         .dloss = args->dloss,
                         .d = args->dstudent,
                         .labels = row_labels_of(args->labels, args->ignore_index),
                         .reduction = TG_BATCHMEAN};
    return run(ctx, &c, args->beta);
}

TG_CPU_IMPLS(jsd) = {TG_CPU_IMPL(jsd_forward, forward), TG_CPU_IMPL(jsd_backward, backward),
                     TG_IMPLS_END};
