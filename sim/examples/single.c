/* single.c - one copy in, or one out: what a trace of the cycle simulator shows of it. */
#include "c_api/asc_simd.h"
#include "examples.h"

EXAMPLE __global__ __vector__ void copy_once(__gm__ float *memory, uint32_t bytes, uint32_t out)
{
    asc_init();
    __ubuf__ float *buffer = (__ubuf__ float *)asc_get_phy_buf_addr(0);
    if (!out) {
        asc_copy_gm2ub(buffer, memory, bytes);
        return;
    }
    asc_duplicate(buffer, 0.0f, bytes / (uint32_t)sizeof(float));
    asc_sync_notify(PIPE_V, PIPE_MTE3, EVENT_ID0);
    asc_sync_wait(PIPE_V, PIPE_MTE3, EVENT_ID0);
    asc_copy_ub2gm(memory, buffer, bytes);
}
