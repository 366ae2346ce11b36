/* A kernel of the right name and arguments with a fault: the copy out does not wait for the copy in. */
#include "c_api/asc_simd.h"

__attribute__((visibility("default"))) __global__ __vector__ void
swiglu_forward_f32(__gm__ float *gate, __gm__ float *up, __gm__ float *y, int64_t gate_stride,
                   int64_t up_stride, int64_t y_stride, int64_t rows, int64_t columns,
                   int64_t tile_rows, int64_t tile_columns, int64_t gate_multiplier,
                   int64_t down_multiplier, int64_t gate_at, int64_t up_at, int64_t y_at,
                   int64_t a_at, int64_t u_at, int64_t h_at, int64_t e_at)
{
    __ubuf__ float *x = (__ubuf__ float *)asc_get_phy_buf_addr(0);
    asc_init();
    if (asc_get_block_idx() > 0)
        return;
    asc_copy_gm2ub_align(x, gate, 32);
    asc_copy_ub2gm_align(y, x, 32);
}
