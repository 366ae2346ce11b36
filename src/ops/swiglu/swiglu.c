/* swiglu: what its shapes do not say of the arguments. */
#include <math.h>

#include "gates/gates.h"

tg_status tg_check_swiglu_forward(const tg_swiglu_forward_args *args)
{
    TG_TRY(gates_check("swiglu_forward", "up", args->up, args->interleaved));
    return tg_expect_f64("swiglu_forward", "limit", args->limit, 0, HUGE_VAL);
}

tg_status tg_check_swiglu_backward(const tg_swiglu_backward_args *args)
{
    TG_TRY(gates_check("swiglu_backward", "up", args->up, args->interleaved));
    TG_TRY(gates_check("swiglu_backward", "dup", args->dup, args->interleaved));
    return tg_expect_f64("swiglu_backward", "limit", args->limit, 0, HUGE_VAL);
}
