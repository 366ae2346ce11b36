/* mhc_post_res: what its shapes do not say of a valid problem. */
#include "rows/streams.h"

tg_status tg_check_mhc_post_res_forward(const tg_mhc_post_res_forward_args *args)
{
    return streams_check("mhc_post_res_forward", args->x);
}

tg_status tg_check_mhc_post_res_backward(const tg_mhc_post_res_backward_args *args)
{
    return streams_check("mhc_post_res_backward", args->x);
}
