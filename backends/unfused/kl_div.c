/* kl_div as an eager framework runs it: a pass for each elementary step, losses in f32. */
#include "eager.h"

static mat clamped_log(eager *e, mat t, double eps)
{
    const mat clamped = eager_new(e, TG_F32, t.rows, t.cols);
    const mat out = eager_new(e, TG_F32, t.rows, t.cols);
    eager_scalar(e, EAGER_MAX, clamped, t, eps);
    eager_unary(e, EAGER_LOG, out, clamped);
    eager_free(e, clamped);
    return out;
}

/* The weight in the type of y_true, where frameworks keep their gradients. */
static mat weight_of(eager *e, mat t, int log_target)
{
    if (!log_target)
        return t;
    const mat weight = eager_new(e, t.type, t.rows, t.cols);
    eager_unary(e, EAGER_EXP, weight, t);
    return weight;
}

static mat loss_matrix(const tg_tensor *t, int64_t reduction)
{
    return reduction == TG_NONE ? eager_rows(t) : eager_column(t);
}

static void gradient(eager *e, mat dy_pred, mat weight, const tg_tensor *dloss, int64_t reduction)
{
    const mat negative = eager_new(e, weight.type, weight.rows, weight.cols);
    eager_unary(e, EAGER_NEG, negative, weight);
    const double scale = reduction_scale((row_labels){0}, reduction, weight.rows, weight.cols);
    if (!dloss) {
        eager_scalar(e, EAGER_MUL, dy_pred, negative, scale);
    } else if (reduction == TG_NONE) {
        eager_binary(e, EAGER_MUL, dy_pred, negative, eager_rows(dloss));
    } else {
        const double g = *(const float *)tg_data(dloss);
        eager_scalar(e, EAGER_MUL, dy_pred, negative, g * scale);
    }
    eager_free(e, negative);
}

static tg_status forward(tg_ctx *ctx, const tg_kl_div_forward_args *args)
{
    eager e = eager_begin(ctx);
    const mat y = eager_rows(args->y_pred), t = eager_rows(args->y_true);
    const mat weight = weight_of(&e, t, args->log_target != 0);
    const mat log_t = args->log_target ? t : clamped_log(&e, t, args->eps);
    const mat difference = eager_new(&e, TG_F32, t.rows, t.cols);
    eager_binary(&e, EAGER_SUB, difference, log_t, y);
    mat loss = loss_matrix(args->loss, args->reduction);
    if (args->reduction != TG_NONE)
        loss = eager_new(&e, TG_F32, t.rows, t.cols);
    eager_binary(&e, EAGER_MUL, loss, difference, weight);
    eager_free(&e, difference);
    if (args->reduction != TG_NONE) {
        const mat rows = eager_new(&e, TG_F32, t.rows, 1);
        eager_reduce_rows(&e, EAGER_SUM, rows, loss);
        double sum = 0;
        for (int64_t r = 0; !e.status && r < t.rows; r++)
            sum += ((const float *)rows.data)[r];
        if (!e.status)
            *(float *)tg_data(args->loss) =
                (float)(sum * reduction_scale((row_labels){0}, args->reduction, t.rows, t.cols));
    }
    if (args->dy_pred)
        gradient(&e, eager_rows(args->dy_pred), weight, args->dloss, args->reduction);
    return eager_end(&e);
}

static tg_status backward(tg_ctx *ctx, const tg_kl_div_backward_args *args)
{
    eager e = eager_begin(ctx);
    const mat weight = weight_of(&e, eager_rows(args->y_true), args->log_target != 0);
    gradient(&e, eager_rows(args->dy_pred), weight, args->dloss, args->reduction);
    return eager_end(&e);
}

UNFUSED_IMPLS(kl_div) = {UNFUSED_IMPL(kl_div_forward, forward),
                         UNFUSED_IMPL(kl_div_backward, backward), TG_IMPLS_END};
