/* cross_entropy as an eager framework runs it: log_softmax and nll_loss from elementary steps in
 * f32, and the backward of each, with the optional terms as further steps. */
#include "cross_entropy.h"

/* Of the argument struct of either direction. */
#define CE_OPTIONS(a)                                                                   \
    (ce_options)                                                                        \
    {                                                                                   \
        (a)->ignore_index, (a)->reduction, (a)->label_smoothing, (a)->lse_square_scale, \
            (a)->softcap, (a)->grad_scale, (a)->token_scaling                           \
    }

/* The targets that a mean counts. */
#define CE_COUNTED(a) ((a)->batch_target ? (a)->batch_target : (a)->target)

static ce_counts count(const ce_options *o, const tg_tensor *counted, const float *weight,
                       int64_t classes)
{
    ce_counts c = {0, 1, 1, 0};
    const int64_t *target = tg_data(counted), rows = tg_numel(counted);
    double d = 0;
    for (int64_t r = 0; r < rows; r++)
        if (target[r] != o->ignore_index) {
            c.n++;
            d += weight ? weight[target[r]] : 1;
        }
    for (int64_t i = 0; i < classes; i++)
        c.class_weights += weight ? weight[i] : 1;
    if (o->reduction == TG_MEAN) {
        c.per_ce = share(d);
        c.per_z = share((double)c.n);
    }
    return c;
}

/* The logits in f32, before and after softcap. */
static ce_eager begin(tg_ctx *ctx, const ce_options *o, const tg_tensor *logits,
                      const tg_tensor *target, const tg_tensor *counted,
                      const tg_tensor *class_weight, const tg_tensor *dloss)
{
    ce_eager s = {.e = eager_begin(ctx), .o = *o, .target = tg_data(target)};
    s.x = eager_rows(logits);
    s.rows = s.x.rows;
    s.n = s.x.cols;
    s.weight = tg_data(class_weight);
    s.dloss = tg_data(dloss);
    s.c = count(o, counted, s.weight, s.n);
    if (s.x.type != TG_F32) {
        const mat wide = matrix(&s);
        eager_unary(&s.e, EAGER_COPY, wide, s.x);
        s.x = wide;
    }
    s.raw = s.x;
    if (o->softcap > 0) {
        const mat tanh = matrix(&s), capped = matrix(&s);
        s.scaled = matrix(&s);
        eager_scalar(&s.e, EAGER_DIV, s.scaled, s.x, o->softcap);
        eager_unary(&s.e, EAGER_TANH, tanh, s.scaled);
        eager_scalar(&s.e, EAGER_MUL, capped, tanh, o->softcap);
        eager_free(&s.e, tanh);
        s.x = capped;
    }
    return s;
}

/* log_p = x - max - log(sum(exp(x - max))); lse and max are columns. */
static void log_softmax(ce_eager *s, mat max, mat lse)
{
    const mat shifted = matrix(s), power = matrix(s), sum = column(s), log_sum = column(s);
    eager_reduce_rows(&s->e, EAGER_MAX, max, s->x);
    eager_binary(&s->e, EAGER_SUB, shifted, s->x, max);
    eager_unary(&s->e, EAGER_EXP, power, shifted);
    eager_reduce_rows(&s->e, EAGER_SUM, sum, power);
    eager_free(&s->e, power);
    eager_unary(&s->e, EAGER_LOG, log_sum, sum);
    eager_binary(&s->e, EAGER_ADD, lse, max, log_sum);
    s->log_p = matrix(s);
    eager_binary(&s->e, EAGER_SUB, s->log_p, shifted, log_sum);
    eager_free(&s->e, shifted);
}

/* Where the target has more than half of the probability, 1 - p from the other classes: neither p -
 * 1 nor log p near 0 keeps its digits there. -1 in all other rows. */
static void doubts(ce_eager *s)
{
    s->doubt = column(s);
    for (int64_t r = 0; !s->e.status && r < s->rows; r++) {
        const float *x = at(s->x) + r * s->x.stride;
        double others = 0;
        at(s->doubt)[r] = -1;
        if (ignored(s, r) || !(log_p_of(s, r) > -0.7))
            continue;
        for (int64_t i = 0; i < s->n; i++)
            others += i == s->target[r] ? 0 : exp((double)x[i] - x[s->target[r]]);
        at(s->doubt)[r] = (float)(others / (1 + others));
    }
}

/* Column of sum_i w_i log_p_i, for smoothing. */
static mat smooth_sums(ce_eager *s, const tg_tensor *class_weight)
{
    const mat sums = column(s);
    if (s->weight) {
        const mat weighted = matrix(s);
        eager_binary(&s->e, EAGER_MUL, weighted, s->log_p, eager_vector(class_weight));
        eager_reduce_rows(&s->e, EAGER_SUM, sums, weighted);
        eager_free(&s->e, weighted);
    } else {
        eager_reduce_rows(&s->e, EAGER_SUM, sums, s->log_p);
    }
    return sums;
}

/* First largest logit of the row, which NaN is not; -1 for ignored rows. Before softcap, which
 * rounds what comes near its limit. */
static int64_t best_of(const ce_eager *s, int64_t r)
{
    const float *row = at(s->raw) + r * s->raw.stride;
    int64_t best = 0;
    for (int64_t i = 1; i < s->n; i++)
        if (row[i] > row[best] || (isnan(row[best]) && !isnan(row[i])))
            best = i;
    return ignored(s, r) ? -1 : best;
}

static void put(tg_tensor *t, int64_t i, double value)
{
    if (t)
        set_element(tg_data(t), tg_type_of(t), i, value);
}

static void losses(ce_eager *s, const tg_cross_entropy_forward_args *args, mat lse)
{
    const ce_options *o = &s->o;
    const mat smooth = o->smoothing != 0 ? smooth_sums(s, args->class_weight) : column(s);
    const int rank = args->predicted || args->accuracy;
    double loss = 0, z_loss = 0, hits = 0;
    for (int64_t r = 0; !s->e.status && r < s->rows; r++) {
        double ce = 0, z = 0, l = 0;
        const int64_t best = rank ? best_of(s, r) : -1;
        const int hit = best >= 0 && best == s->target[r];
        if (!ignored(s, r)) {
            const double f = confidence(s, r);
            l = eager_all_minus_inf(s->x, r) ? -INFINITY : at(lse)[r];
            ce = (1 - o->smoothing) * weight_of(s, s->target[r]) * minus_log_p_of(s, r);
            if (o->smoothing != 0)
                ce -= o->smoothing / (double)s->n * at(smooth)[r];
            ce *= f * s->c.per_ce;
            z = o->z != 0 ? f * o->z * l * l * s->c.per_z : 0;
        }
        loss += ce + z;
        z_loss += z;
        hits += hit;
        put(args->lse, r, l);
        put(args->predicted, r, (double)best);
        if (o->reduction == TG_NONE) {
            put(args->loss, r, ce + z);
            put(args->z_loss, r, z);
            put(args->accuracy, r, hit);
        }
    }
    if (o->reduction != TG_NONE && !s->e.status) {
        put(args->loss, 0, loss);
        put(args->z_loss, 0, z_loss);
        put(args->accuracy, 0, s->c.n ? hits / (double)s->c.n : 0);
    }
}

static tg_status forward(tg_ctx *ctx, const tg_cross_entropy_forward_args *args)
{
    const ce_options o = CE_OPTIONS(args);
    ce_eager s = begin(ctx, &o, args->logits, args->target, CE_COUNTED(args), args->class_weight,
                       args->dloss);
    const mat max = column(&s), lse = column(&s);
    log_softmax(&s, max, lse);
    doubts(&s);
    losses(&s, args, lse);
    if (args->dlogits)
        ce_gradient(&s, args->class_weight, lse, eager_rows(args->dlogits));
    return eager_end(&s.e);
}

static tg_status backward(tg_ctx *ctx, const tg_cross_entropy_backward_args *args)
{
    const ce_options o = CE_OPTIONS(args);
    ce_eager s = begin(ctx, &o, args->logits, args->target, CE_COUNTED(args), args->class_weight,
                       args->dloss);
    const mat lse = eager_column(args->lse);
    s.log_p = matrix(&s);
    eager_binary(&s.e, EAGER_SUB, s.log_p, s.x, lse);
    doubts(&s);
    ce_gradient(&s, args->class_weight, lse, eager_rows(args->dlogits));
    return eager_end(&s.e);
}

/* All classes: what it stands for knows no slices. */
static int accepts_forward(const tg_cross_entropy_forward_args *args)
{
    return !args->vocab_size;
}

static int accepts_backward(const tg_cross_entropy_backward_args *args)
{
    return !args->vocab_size;
}

UNFUSED_IMPLS(cross_entropy) = {UNFUSED_IMPL_IF(cross_entropy_forward, accepts_forward, forward),
                                UNFUSED_IMPL_IF(cross_entropy_backward, accepts_backward, backward),
                                TG_IMPLS_END};
