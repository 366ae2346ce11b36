/* kl_div: what the arguments must be. */
#include "core/services.h"

/* loss and dloss: one element, or all for TG_NONE. */
static tg_status check_loss(const char *op, const char *name, const tg_tensor *t,
                            const char *like_name, const tg_tensor *like, int64_t reduction)
{
    if (reduction != TG_NONE)
        return tg_expect_numel(op, name, t, 1, "one for a reduced loss");
    return tg_expect_same_shape(op, name, t, like_name, like);
}

tg_status tg_check_kl_div_forward(const tg_kl_div_forward_args *args)
{
    static const char op[] = "kl_div_forward";
    TG_TRY(tg_expect_rows(op, "y_pred", args->y_pred));
    TG_TRY(tg_expect_same_shape(op, "y_true", args->y_true, "y_pred", args->y_pred));
    TG_TRY(tg_expect_same_shape(op, "dy_pred", args->dy_pred, "y_pred", args->y_pred));
    TG_TRY(tg_expect_f64(op, "eps", args->eps, 0, FLT_MAX));
    TG_TRY(check_loss(op, "dloss", args->dloss, "y_pred", args->y_pred, args->reduction));
    return check_loss(op, "loss", args->loss, "y_pred", args->y_pred, args->reduction);
}

tg_status tg_check_kl_div_backward(const tg_kl_div_backward_args *args)
{
    static const char op[] = "kl_div_backward";
    TG_TRY(tg_expect_rows(op, "dy_pred", args->dy_pred));
    TG_TRY(tg_expect_same_shape(op, "y_true", args->y_true, "dy_pred", args->dy_pred));
    return check_loss(op, "dloss", args->dloss, "dy_pred", args->dy_pred, args->reduction);
}
