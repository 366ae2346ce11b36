/* scale.c - the smallest kernel: y = 2 x, in tiles, one buffer. `ascsim run --help` runs it. */
#include "c_api/asc_simd.h"
#include "examples.h"

enum { TILE = 8192 };

EXAMPLE __global__ __vector__ void scale(__gm__ float *x, __gm__ float *y, uint32_t n)
{
    asc_init();
    __ubuf__ float *tile = (__ubuf__ float *)asc_get_phy_buf_addr(0);
    const uint32_t step = TILE * (uint32_t)asc_get_block_num();
    for (uint32_t at = TILE * (uint32_t)asc_get_block_idx(); at < n; at += step) {
        const uint32_t count = n - at < TILE ? n - at : TILE;
        asc_copy_gm2ub_align(tile, x + at, count * (uint32_t)sizeof(float));
        asc_sync_notify(PIPE_MTE2, PIPE_V, EVENT_ID0);
        asc_sync_wait(PIPE_MTE2, PIPE_V, EVENT_ID0);
        asc_mul_scalar(tile, tile, 2.0f, count);
        asc_sync_notify(PIPE_V, PIPE_MTE3, EVENT_ID0);
        asc_sync_wait(PIPE_V, PIPE_MTE3, EVENT_ID0);
        asc_copy_ub2gm_align(y + at, tile, count * (uint32_t)sizeof(float));
        asc_sync_notify(PIPE_MTE3, PIPE_MTE2, EVENT_ID0);
        asc_sync_wait(PIPE_MTE3, PIPE_MTE2, EVENT_ID0);
    }
}
