/* swiglu: what the arguments must be. */
#include "core/services.h"

/* Rows of the same shape and type as gate. */
static tg_status expect_like_gate(const char *op, const char *name, const tg_tensor *t,
                                  const tg_tensor *gate)
{
    return tg_expect_same_shape(op, name, t, "gate", gate);
}

static tg_status check_gate(const char *op, const tg_tensor *gate)
{
    return tg_expect_rows(op, "gate", gate);
}

tg_status tg_check_swiglu_forward(const tg_swiglu_forward_args *args)
{
    static const char op[] = "swiglu_forward";
    TG_TRY(check_gate(op, args->gate));
    TG_TRY(expect_like_gate(op, "up", args->up, args->gate));
    return expect_like_gate(op, "y", args->y, args->gate);
}

tg_status tg_check_swiglu_backward(const tg_swiglu_backward_args *args)
{
    static const char op[] = "swiglu_backward";
    TG_TRY(check_gate(op, args->gate));
    TG_TRY(expect_like_gate(op, "dy", args->dy, args->gate));
    TG_TRY(expect_like_gate(op, "up", args->up, args->gate));
    TG_TRY(expect_like_gate(op, "dgate", args->dgate, args->gate));
    TG_TRY(expect_like_gate(op, "y", args->y, args->gate));
    return expect_like_gate(op, "dup", args->dup, args->gate);
}
