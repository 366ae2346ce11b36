/* cube_kernels.c - products whose times are published, tiles that are copied out, flags between
 * cores: for times alone. */
#include "c_api/asc_simd.h"

enum { F16_SIDE = 64 };

__global__ __cube__ void products(uint32_t count, uint32_t m, uint32_t n)
{
    asc_init();
    for (uint32_t i = 0; i < count; i++)
        asc_mmad((__cc__ float *)asc_get_phy_buf_addr(0), (__ca__ half *)asc_get_phy_buf_addr(0),
                 (__cb__ half *)asc_get_phy_buf_addr(0), m, F16_SIDE, n, 0, false, false, i == 0);
}

/* Tiles of `steps` products, each copied out: by flags of pipes, by the unit flag (1), by that to
 * L1 (2). */
__global__ __cube__ void tiles(__gm__ half *c, uint32_t count, uint32_t steps, uint32_t unit_flag)
{
    asc_init();
    if (unit_flag == 1)
        asc_set_mmad_direction_n();
    asc_set_l0c_copy_params(1, 0, 0);
    __cc__ float *l0c = (__cc__ float *)asc_get_phy_buf_addr(0);
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < steps; k++)
            asc_mmad(l0c, (__ca__ half *)asc_get_phy_buf_addr(0),
                     (__cb__ half *)asc_get_phy_buf_addr(0), 128, F16_SIDE, 256,
                     !unit_flag       ? 0
                     : k + 1 == steps ? 3
                                      : 2,
                     false, false, k == 0);
        if (!unit_flag) {
            asc_sync_notify(PIPE_M, PIPE_FIX, EVENT_ID0);
            asc_sync_wait(PIPE_M, PIPE_FIX, EVENT_ID0);
        }
        if (unit_flag == 2) {
            asc_copy_l0c2l1((__cbuf__ half *)asc_get_phy_buf_addr(0), l0c, 256, 128, 128 * 16, 128,
                            3, F322F16, 0, false, false);
            continue;
        }
        asc_copy_l0c2gm(c + i * 128 * 256, l0c, 256, 128, 256, 128, unit_flag ? 3 : 0, F322F16, 0,
                        false, true);
        if (!unit_flag) {
            asc_sync_notify(PIPE_FIX, PIPE_M, EVENT_ID0);
            asc_sync_wait(PIPE_FIX, PIPE_M, EVENT_ID0);
        }
    }
    asc_set_mmad_direction_m();
}

/* The vector cores wait for the cube core's products, and it for them, `rounds` times. */
__global__ __mix__(1, 2) void rounds(uint32_t rounds)
{
    asc_set_ffts_base_addr(4096);
    asc_init();
    for (uint32_t i = 0; i < rounds; i++) {
        if ASC_IS_AIC {
            asc_mmad((__cc__ float *)asc_get_phy_buf_addr(0),
                     (__ca__ half *)asc_get_phy_buf_addr(0), (__cb__ half *)asc_get_phy_buf_addr(0),
                     128, F16_SIDE, 256, 0, false, false, true);
            asc_sync_block_arrive(PIPE_M, 0);
            asc_sync_block_wait(PIPE_S, 1);
        } else {
            asc_sync_block_wait(PIPE_S, 0);
            asc_duplicate((__ubuf__ float *)asc_get_phy_buf_addr(0), 1.0f, 64 * 178);
            asc_sync_block_arrive(PIPE_V, 1);
        }
    }
}
