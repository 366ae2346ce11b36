/* kl_div: what the arguments must be. */
#include "core/services.h"

/* loss and dloss: one element, or all for TG_NONE. */
static tg_status check_loss(const char *op, const char *name, const tg_tensor *t,
                            const char *like_name, const tg_tensor *like, int64_t reduction)
{
    TG_TRY(tg_expect_stat(op, name, t, tg_type_of(like)));
    if (reduction != TG_NONE)
        return tg_expect_numel(op, name, t, 1, "one for a reduced loss");
    TG_TRY(tg_expect_same_shape(op, name, t, like_name, like));
    return tg_expect_rows(op, name, t);
}

static tg_status check_rows(const char *op, const char *name, const tg_tensor *t,
                            const tg_tensor *like)
{
    TG_TRY(tg_expect_like(op, name, t, "y_true", like));
    return tg_expect_rows(op, name, t);
}

tg_status tg_check_kl_div_forward(const tg_kl_div_forward_args *args)
{
    static const char op[] = "kl_div_forward";
    TG_TRY(tg_expect_float(op, "y_true", args->y_true));
    TG_TRY(check_rows(op, "y_true", args->y_true, args->y_true));
    TG_TRY(check_rows(op, "y_pred", args->y_pred, args->y_true));
    TG_TRY(check_rows(op, "dy_pred", args->dy_pred, args->y_true));
    TG_TRY(tg_expect_f64(op, "eps", args->eps, 0, FLT_MAX));
    TG_TRY(check_loss(op, "dloss", args->dloss, "y_true", args->y_true, args->reduction));
    return check_loss(op, "loss", args->loss, "y_true", args->y_true, args->reduction);
}

tg_status tg_check_kl_div_backward(const tg_kl_div_backward_args *args)
{
    static const char op[] = "kl_div_backward";
    TG_TRY(tg_expect_float(op, "y_true", args->y_true));
    TG_TRY(check_rows(op, "y_true", args->y_true, args->y_true));
    TG_TRY(check_rows(op, "dy_pred", args->dy_pred, args->y_true));
    return check_loss(op, "dloss", args->dloss, "y_true", args->y_true, args->reduction);
}
