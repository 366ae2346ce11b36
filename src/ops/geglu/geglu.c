/* geglu: what its shapes do not say of the arguments. */
#include "gates/gates.h"

tg_status tg_check_geglu_forward(const tg_geglu_forward_args *args)
{
    return gates_check("geglu_forward", "up", args->up, args->interleaved);
}

tg_status tg_check_geglu_backward(const tg_geglu_backward_args *args)
{
    TG_TRY(gates_check("geglu_backward", "up", args->up, args->interleaved));
    return gates_check("geglu_backward", "dup", args->dup, args->interleaved);
}
