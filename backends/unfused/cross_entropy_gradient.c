/* cross_entropy_gradient.c - the backward of log_softmax and nll_loss, one step after the other. */
#include "cross_entropy.h"

/* The upstream gradient of a row that is not ignored, times what all of the row has in common. */
static double upstream(const ce_eager *s, int64_t r)
{
    const double dloss = s->dloss ? s->dloss[s->o.reduction == TG_NONE ? r : 0] : 1;
    return s->o.grad_scale * dloss * confidence(s, r);
}

/* The gradient of log_p: -hit at the target and -bias w_i everywhere. */
static mat log_p_gradient(ce_eager *s, const tg_tensor *class_weight)
{
    const double a = s->o.smoothing, e = a / (double)s->n;
    const mat d = matrix(s), bias = column(s);
    eager_fill(&s->e, d, 0);
    if (s->e.status)
        return d;
    for (int64_t r = 0; r < s->rows; r++) {
        const double g = ignored(s, r) ? 0 : upstream(s, r) * s->c.per_ce;
        at(bias)[r] = (float)(-g * e);
        if (!ignored(s, r))
            at(d)[r * s->n + s->target[r]] = (float)(-g * (1 - a) * weight_of(s, s->target[r]));
    }
    if (a == 0)
        return d;
    const mat sum = matrix(s);
    if (s->weight) {
        const mat spread = matrix(s);
        eager_fill(&s->e, spread, 0);
        eager_binary(&s->e, EAGER_ADD, sum, spread, eager_vector(class_weight));
        eager_binary(&s->e, EAGER_MUL, spread, sum, bias);
        eager_binary(&s->e, EAGER_ADD, sum, d, spread);
    } else {
        eager_binary(&s->e, EAGER_ADD, sum, d, bias);
    }
    eager_free(&s->e, d);
    return sum;
}

/* The gradient of lse by the z-loss. */
static double lse_gradient(const ce_eager *s, mat lse, int64_t r)
{
    return s->o.z != 0 ? upstream(s, r) * 2 * s->o.z * at(lse)[r] * s->c.per_z : 0;
}

/* The target's element of a row with doubt q: p dlse - hit q + bias (W p - w), W p - w
 * being (W - w) p - w q. */
static void settle_target(ce_eager *s, mat lse, mat slope, mat dlogits, int64_t r)
{
    const int64_t y = s->target[r];
    const double q = at(s->doubt)[r], p = 1 - q, w = weight_of(s, y), a = s->o.smoothing;
    const double g = upstream(s, r) * s->c.per_ce, bias = g * a / (double)s->n;
    const double d = lse_gradient(s, lse, r) * p - g * (1 - a) * w * q +
                     bias * ((s->c.class_weights - w) * p - w * q);
    set_element(dlogits.data, dlogits.type, r * dlogits.stride + y,
                slope.data ? d * at(slope)[r * s->n + y] : d);
}

/* dx = d - p * (sum(d) - dlse), times 1 - tanh^2; dlse is the gradient of lse by the z-loss. */
static void rows_gradient(ce_eager *s, const tg_tensor *class_weight, mat lse, mat dlogits)
{
    const mat d = log_p_gradient(s, class_weight), sum = column(s);
    eager_reduce_rows(&s->e, EAGER_SUM, sum, d);
    for (int64_t r = 0; s->o.z != 0 && !s->e.status && r < s->rows; r++)
        if (!ignored(s, r))
            at(sum)[r] -= (float)lse_gradient(s, lse, r);
    const mat p = matrix(s), product = matrix(s);
    mat slope = {0};
    eager_unary(&s->e, EAGER_EXP, p, s->log_p);
    eager_binary(&s->e, EAGER_MUL, product, p, sum);
    eager_free(&s->e, p);
    if (s->o.softcap == 0) {
        eager_binary(&s->e, EAGER_SUB, dlogits, d, product);
    } else {
        const mat dx = matrix(s);
        slope = matrix(s);
        eager_binary(&s->e, EAGER_SUB, dx, d, product);
        eager_unary(&s->e, EAGER_TANH_SLOPE, slope, s->scaled);
        eager_binary(&s->e, EAGER_MUL, dlogits, dx, slope);
    }
    for (int64_t r = 0; !s->e.status && r < s->rows; r++)
        if (at(s->doubt)[r] >= 0)
            settle_target(s, lse, slope, dlogits, r);
}

void ce_gradient(ce_eager *s, const tg_tensor *class_weight, mat lse, mat dlogits)
{
    rows_gradient(s, class_weight, lse, dlogits);
    for (int64_t r = 0; r < s->rows; r++)
        if (ignored(s, r))
            eager_fill(&s->e,
                       eager_view(element_at(dlogits.data, dlogits.type, r * dlogits.stride),
                                  dlogits.type, 1, s->n, s->n),
                       0);
}
