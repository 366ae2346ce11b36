/* A kernel of the right name and arguments with a fault: the copy out does not
 * wait for the copy in. */
#include "c_api/asc_simd.h"
#include "maps/swiglu.args.h"

#define ASC_T float

__attribute__((visibility("default"))) __global__ __vector__ void
swiglu_forward_f32(ASC_PARAMS(SWIGLU_FORWARD))
{
    __ubuf__ float *x = (__ubuf__ float *)asc_get_phy_buf_addr(0);
    asc_init();
    if (asc_get_block_idx() > 0)
        return;
    asc_copy_gm2ub_align(x, gate, 32);
    asc_copy_ub2gm_align(y, x, 32);
}
