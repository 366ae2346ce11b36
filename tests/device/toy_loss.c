/* toy_loss.c - cross_entropy, without weights of classes, smoothing, token scaling and slices. Targets lie in device memory: no
 * check has seen them. */
#include <math.h>

#include "toy.h"

typedef struct loss_options {
    int64_t ignored, reduction;
    double z, softcap, grad_scale;
} loss_options;

static int64_t target_of(const tg_tensor *target, int64_t i)
{
    return ((const int64_t *)target->data)[i];
}

/* 1 for a row to compute, 0 for one that is ignored, -1 for one that must not be touched. */
static int kind_of(const toy_call *call, const tg_tensor *target, const loss_options *o, int64_t i,
                   int64_t classes)
{
    const int64_t y = target_of(target, i);
    if (y == o->ignored)
        return 0;
    if (y >= 0 && y < classes)
        return 1;
    toy_out_of_range(call, "target", i, y, classes);
    return -1;
}

/* Rows that count in a mean; 1 for the other reductions. */
static double divisor(const tg_tensor *target, const loss_options *o, int64_t *counted)
{
    *counted = 0;
    for (int64_t i = 0; i < tg_numel(target); i++)
        *counted += target_of(target, i) != o->ignored;
    return o->reduction != TG_MEAN ? 1 : *counted ? (double)*counted : INFINITY;
}

static double logit(const tg_rows *x, const loss_options *o, int64_t i, int64_t j)
{
    const double v = toy_get(x, i, j);
    return o->softcap > 0 ? o->softcap * tanh(v / o->softcap) : v;
}

/* The first of the largest; NaN is never one. */
static int64_t largest(const tg_rows *x, const loss_options *o, int64_t i)
{
    int64_t best = 0;
    for (int64_t j = 1; j < x->n; j++)
        if (logit(x, o, i, j) > logit(x, o, i, best) ||
            (isnan(logit(x, o, i, best)) && !isnan(logit(x, o, i, j))))
            best = j;
    return best;
}

/* lse, as two numbers whose sum it is: a common offset of the logits costs no digits. */
typedef struct row_sum {
    double most, log_sum;
} row_sum;

static row_sum sum_of(const tg_rows *x, const loss_options *o, int64_t i, int64_t best)
{
    const double most = logit(x, o, i, best);
    double sum = 0, any_nan = 0;
    for (int64_t j = 0; j < x->n; j++) {
        sum += exp(logit(x, o, i, j) - most);
        any_nan += isnan(logit(x, o, i, j)) ? NAN : 0;
    }
    return (row_sum){most + any_nan, log(sum)};
}

static double lse_of(const row_sum *s)
{
    return s->most > -INFINITY ? s->most + s->log_sum : s->most;
}

static double log_p(const tg_rows *x, const loss_options *o, const row_sum *s, int64_t i, int64_t j)
{
    return logit(x, o, i, j) - s->most - s->log_sum;
}

/* 1 - p of the target: a sum over the others, where p is near 1. */
static double doubt(const tg_rows *x, const loss_options *o, const row_sum *s, int64_t i, int64_t y)
{
    double sum = isfinite(s->log_sum) ? 0 : NAN;
    for (int64_t j = 0; j < x->n; j++)
        sum += j == y ? 0 : exp(log_p(x, o, s, i, j));
    return sum;
}

/* q: 1 - p of the target; g: the upstream gradient. */
static void put_gradient(const tg_rows *x, const tg_rows *dx, const loss_options *o,
                         const row_sum *s, int64_t i, int64_t y, double q, double g)
{
    for (int64_t j = 0; j < x->n; j++) {
        const double v = logit(x, o, i, j), p = exp(log_p(x, o, s, i, j)), slope = v / o->softcap;
        double d = (j == y ? -q : p) + 2 * o->z * lse_of(s) * p;
        if (o->softcap > 0)
            d *= 1 - slope * slope;
        toy_set(dx, i, j, g * d);
    }
}

static void put_zeros(const tg_rows *dx, int64_t i)
{
    for (int64_t j = 0; j < dx->n; j++)
        toy_set(dx, i, j, 0);
}

/* Element i of a vector of whatever shape, if it is there. */
static void put(tg_tensor *t, int64_t i, double value)
{
    const tg_rows r = tg_rows_of(t);
    if (r.data)
        toy_set(&r, 0, i, value);
}

static double upstream(const tg_tensor *dloss, const loss_options *o, int64_t i)
{
    const tg_rows r = tg_rows_of(dloss);
    return o->grad_scale * (r.data ? toy_get(&r, 0, o->reduction == TG_NONE ? i : 0) : 1);
}

static void cross_entropy(toy_call *call)
{
    const tg_cross_entropy_forward_args *a = (const void *)call->slot;
    const loss_options o = {a->ignore_index, a->reduction, a->lse_square_scale, a->softcap,
                            a->grad_scale};
    const tg_rows x = tg_rows_of(a->logits), dx = tg_rows_of(a->dlogits);
    const int each = o.reduction == TG_NONE;
    int64_t counted;
    double loss = 0, z_loss = 0, hits = 0;
    const double d = divisor(a->batch_target ? a->batch_target : a->target, &o, &counted);
    for (int64_t i = 0; i < x.rows; i++) {
        const int64_t y = target_of(a->target, i);
        const int kind = kind_of(call, a->target, &o, i, x.n);
        if (kind < 0)
            continue;
        const int64_t best = kind ? largest(&x, &o, i) : -1;
        const row_sum sum = kind ? sum_of(&x, &o, i, best) : (row_sum){0, 0};
        const double q = kind ? doubt(&x, &o, &sum, i, y) : 0, lse = lse_of(&sum);
        const double ce = !kind ? 0 : q < 0.5 ? -log1p(-q) : -log_p(&x, &o, &sum, i, y);
        const double z = o.z == 0 ? 0 : o.z * lse * lse;
        loss += (ce + z) / d;
        z_loss += z / d;
        hits += kind && best == y;
        put(a->lse, i, lse);
        put(a->predicted, i, (double)best);
        put(each ? a->loss : NULL, i, ce + z);
        put(each ? a->z_loss : NULL, i, z);
        put(each ? a->accuracy : NULL, i, kind && best == y);
        if (dx.data && kind)
            put_gradient(&x, &dx, &o, &sum, i, y, q, upstream(a->dloss, &o, i) / d);
        else if (dx.data)
            put_zeros(&dx, i);
    }
    put(each ? NULL : a->loss, 0, loss);
    put(each ? NULL : a->z_loss, 0, z_loss);
    put(each ? NULL : a->accuracy, 0, counted ? hits / (double)counted : 0);
}

static void cross_entropy_gradient(toy_call *call)
{
    const tg_cross_entropy_backward_args *a = (const void *)call->slot;
    const loss_options o = {a->ignore_index, a->reduction, a->lse_square_scale, a->softcap,
                            a->grad_scale};
    const tg_rows x = tg_rows_of(a->logits), dx = tg_rows_of(a->dlogits);
    int64_t counted;
    const double d = divisor(a->batch_target ? a->batch_target : a->target, &o, &counted);
    for (int64_t i = 0; i < x.rows; i++) {
        const int64_t y = target_of(a->target, i);
        const int kind = kind_of(call, a->target, &o, i, x.n);
        if (kind > 0) { /* summed anew: f32 has not the digits of lse under a large offset */
            const row_sum sum = sum_of(&x, &o, i, largest(&x, &o, i));
            put_gradient(&x, &dx, &o, &sum, i, y, doubt(&x, &o, &sum, i, y),
                         upstream(a->dloss, &o, i) / d);
        } else if (kind == 0) {
            put_zeros(&dx, i);
        }
    }
}

static int plain(const tg_tensor *class_weight, double smoothing, int64_t token_scaling,
                 int64_t vocab_size)
{
    return !class_weight && smoothing == 0 && token_scaling == 0 && !vocab_size;
}

static int accepts_forward(const tg_cross_entropy_forward_args *a)
{
    return plain(a->class_weight, a->label_smoothing, a->token_scaling, a->vocab_size);
}

static int accepts_backward(const tg_cross_entropy_backward_args *a)
{
    return plain(a->class_weight, a->label_smoothing, a->token_scaling, a->vocab_size);
}

TOY_FUNCTION(cross_entropy_forward, cross_entropy, 0)
TOY_FUNCTION(cross_entropy_backward, cross_entropy_gradient, 0)

const tg_impl toy_loss_rows[] = {
    TG_IMPL(cross_entropy_forward, "", 0, TG_TAKES_FLOATS, accepts_forward,
            toy_cross_entropy_forward),
    TG_IMPL(cross_entropy_backward, "", 0, TG_TAKES_FLOATS, accepts_backward,
            toy_cross_entropy_backward),
    TG_IMPLS_END,
};
