/* tvd as an eager framework runs it: a pass for each elementary step, losses in f32. */
#include "eager.h"

/* A column of the rows' factors: 0 for those that are ignored, else `value`. */
static mat row_factors(eager *e, row_labels labels, int64_t rows, double value)
{
    const mat m = eager_new(e, TG_F32, rows, 1);
    for (int64_t r = 0; !e->status && r < rows; r++)
        ((float *)m.data)[r] = row_ignored(labels, r) ? 0 : (float)value;
    return m;
}

/* Half of (p > q) - (q > p), times the upstream gradient and the rows' factors. */
static void gradient(eager *e, const tg_tensor *p, const tg_tensor *q, row_labels labels,
                     const tg_tensor *dloss, int64_t reduction, const tg_tensor *dp)
{
    const mat a = eager_rows(p), b = eager_rows(q), out = eager_rows(dp);
    const mat greater = eager_new(e, a.type, a.rows, a.cols);
    const mat less = eager_new(e, a.type, a.rows, a.cols);
    const mat slope = eager_new(e, a.type, a.rows, a.cols);
    const double scale = reduction_scale(labels, reduction, a.rows, a.cols);
    const int each = dloss && reduction == TG_NONE;
    const double g = dloss && !each ? *(const float *)tg_data(dloss) : 1;
    const mat factors = row_factors(e, labels, a.rows, g * scale);
    eager_binary(e, EAGER_GREATER, greater, a, b);
    eager_binary(e, EAGER_GREATER, less, b, a);
    eager_binary(e, EAGER_SUB, slope, greater, less);
    eager_scalar(e, EAGER_MUL, slope, slope, 0.5);
    eager_binary(e, EAGER_MUL, each ? greater : out, slope, factors);
    if (each)
        eager_binary(e, EAGER_MUL, out, greater, eager_rows(dloss));
    eager_drop_rows(e, labels, out);
}

static tg_status forward(tg_ctx *ctx, const tg_tvd_forward_args *args)
{
    eager e = eager_begin(ctx);
    const row_labels labels = labels_of(args->labels, args->ignore_index);
    const mat p = eager_rows(args->p), q = eager_rows(args->q);
    const mat difference = eager_new(&e, TG_F32, p.rows, p.cols);
    const mat distance = eager_new(&e, TG_F32, p.rows, p.cols);
    const int each = args->reduction == TG_NONE;
    eager_binary(&e, EAGER_SUB, difference, p, q);
    eager_unary(&e, EAGER_ABS, distance, difference);
    const mat halves = each ? eager_rows(args->loss) : difference;
    eager_scalar(&e, EAGER_MUL, halves, distance, 0.5);
    eager_drop_rows(&e, labels, halves);
    if (!each) {
        const mat sums = eager_new(&e, TG_F32, p.rows, 1);
        eager_reduce_rows(&e, EAGER_SUM, sums, halves);
        double sum = 0;
        for (int64_t r = 0; !e.status && r < p.rows; r++)
            sum += ((const float *)sums.data)[r];
        if (!e.status)
            *(float *)tg_data(args->loss) =
                (float)(sum * reduction_scale(labels, args->reduction, p.rows, p.cols));
    }
    if (args->dp)
        gradient(&e, args->p, args->q, labels, args->dloss, args->reduction, args->dp);
    return eager_end(&e);
}

static tg_status backward(tg_ctx *ctx, const tg_tvd_backward_args *args)
{
    eager e = eager_begin(ctx);
    gradient(&e, args->p, args->q, labels_of(args->labels, args->ignore_index), args->dloss,
             args->reduction, args->dp);
    return eager_end(&e);
}

UNFUSED_IMPLS(tvd) = {UNFUSED_IMPL(tvd_forward, forward), UNFUSED_IMPL(tvd_backward, backward),
                      TG_IMPLS_END};
