/* mhc_pre: what its shapes do not say of a valid problem. */
#include "rows/streams.h"

tg_status tg_check_mhc_pre_forward(const tg_mhc_pre_forward_args *args)
{
    return streams_check("mhc_pre_forward", args->x);
}

tg_status tg_check_mhc_pre_backward(const tg_mhc_pre_backward_args *args)
{
    return streams_check("mhc_pre_backward", args->x);
}
