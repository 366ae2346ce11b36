/* toy_loss.c - cross_entropy, without weights of classes, smoothing and token scaling. Targets lie in device memory: no check
 * has seen them. */
#include <math.h>

#include "toy.h"

typedef struct loss_options {
    int64_t ignored, reduction;
    double z, softcap;
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

static double logit(const toy_rows *x, const loss_options *o, int64_t i, int64_t j)
{
    const double v = toy_get(x, i, j);
    return o->softcap > 0 ? o->softcap * tanh(v / o->softcap) : v;
}

/* The first of the largest; NaN is never one. */
static int64_t largest(const toy_rows *x, const loss_options *o, int64_t i)
{
    int64_t best = 0;
    for (int64_t j = 1; j < x->n; j++)
        if (logit(x, o, i, j) > logit(x, o, i, best) || isnan(logit(x, o, i, best)))
            best = j;
    return best;
}

static double log_sum(const toy_rows *x, const loss_options *o, int64_t i, double most)
{
    double sum = 0;
    for (int64_t j = 0; j < x->n; j++)
        sum += exp(logit(x, o, i, j) - most);
    return most > -INFINITY ? most + log(sum) : most;
}

/* 1 - p of the target: a sum over the others, where p is near 1. */
static double doubt(const toy_rows *x, const loss_options *o, int64_t i, int64_t y, double lse)
{
    double sum = isfinite(lse) ? 0 : NAN;
    for (int64_t j = 0; j < x->n; j++)
        sum += j == y ? 0 : exp(logit(x, o, i, j) - lse);
    return sum;
}

/* q: 1 - p of the target; g: the upstream gradient. */
static void put_gradient(const toy_rows *x, const toy_rows *dx, const loss_options *o, int64_t i,
                         int64_t y, double lse, double q, double g)
{
    for (int64_t j = 0; j < x->n; j++) {
        const double v = logit(x, o, i, j), p = exp(v - lse), slope = v / o->softcap;
        double d = (j == y ? -q : p) + 2 * o->z * lse * p;
        if (o->softcap > 0)
            d *= 1 - slope * slope;
        toy_set(dx, i, j, g * d);
    }
}

static void put_zeros(const toy_rows *dx, int64_t i)
{
    for (int64_t j = 0; j < dx->n; j++)
        toy_set(dx, i, j, 0);
}

/* Element i of a vector of whatever shape, if it is there. */
static void put(tg_tensor *t, int64_t i, double value)
{
    const toy_rows r = toy_rows_of(t);
    if (r.data)
        toy_set(&r, 0, i, value);
}

static double upstream(const tg_tensor *dloss, const loss_options *o, int64_t i)
{
    const toy_rows r = toy_rows_of(dloss);
    return r.data ? toy_get(&r, 0, o->reduction == TG_NONE ? i : 0) : 1;
}

static void cross_entropy(toy_call *call)
{
    const tg_cross_entropy_forward_args *a = (const void *)call->slot;
    const loss_options o = {a->ignore_index, a->reduction, a->lse_square_scale, a->softcap};
    const toy_rows x = toy_rows_of(a->logits), dx = toy_rows_of(a->dlogits);
    const int each = o.reduction == TG_NONE;
    int64_t counted;
    double loss = 0, z_loss = 0, hits = 0;
    const double d = divisor(a->target, &o, &counted);
    for (int64_t i = 0; i < x.rows; i++) {
        const int64_t y = target_of(a->target, i);
        const int kind = kind_of(call, a->target, &o, i, x.n);
        if (kind < 0)
            continue;
        const int64_t best = kind ? largest(&x, &o, i) : -1;
        const double lse = kind ? log_sum(&x, &o, i, logit(&x, &o, i, best)) : 0;
        const double q = kind ? doubt(&x, &o, i, y, lse) : 0;
        const double ce = !kind ? 0 : q < 0.5 ? -log1p(-q) : lse - logit(&x, &o, i, y);
        const double z = o.z * lse * lse;
        loss += (ce + z) / d;
        z_loss += z / d;
        hits += kind && best == y;
        put(a->lse, i, lse);
        put(a->predicted, i, (double)best);
        put(each ? a->loss : NULL, i, ce + z);
        put(each ? a->z_loss : NULL, i, z);
        put(each ? a->accuracy : NULL, i, kind && best == y);
        if (dx.data && kind)
            put_gradient(&x, &dx, &o, i, y, lse, q, upstream(a->dloss, &o, i) / d);
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
    const loss_options o = {a->ignore_index, a->reduction, a->lse_square_scale, a->softcap};
    const toy_rows x = toy_rows_of(a->logits), dx = toy_rows_of(a->dlogits),
                   lse = toy_rows_of(a->lse);
    int64_t counted;
    const double d = divisor(a->target, &o, &counted);
    for (int64_t i = 0; i < x.rows; i++) {
        const int64_t y = target_of(a->target, i);
        const int kind = kind_of(call, a->target, &o, i, x.n);
        const double l = kind > 0 ? toy_get(&lse, 0, i) : 0;
        if (kind > 0)
            put_gradient(&x, &dx, &o, i, y, l, -expm1(logit(&x, &o, i, y) - l),
                         upstream(a->dloss, &o, i) / d);
        else if (kind == 0)
            put_zeros(&dx, i);
    }
}

static int plain(const tg_tensor *class_weight, double smoothing, int64_t token_scaling)
{
    return !class_weight && smoothing == 0 && token_scaling == 0;
}

static int accepts_forward(const tg_cross_entropy_forward_args *a)
{
    return plain(a->class_weight, a->label_smoothing, a->token_scaling) &&
           tg_even_rows(a->logits) && (!a->dlogits || tg_even_rows(a->dlogits));
}

static int accepts_backward(const tg_cross_entropy_backward_args *a)
{
    return plain(a->class_weight, a->label_smoothing, a->token_scaling) &&
           tg_even_rows(a->logits) && tg_even_rows(a->dlogits);
}

TOY_ROW_FUNCTION(cross_entropy_forward, cross_entropy, 0)
TOY_ROW_FUNCTION(cross_entropy_backward, cross_entropy_gradient, 0)

const tg_row toy_loss_rows[] = {
    TG_ROW(cross_entropy_forward, "", 0, accepts_forward, toy_cross_entropy_forward),
    TG_ROW(cross_entropy_backward, "", 0, accepts_backward, toy_cross_entropy_backward),
    TG_ROWS_END,
};
