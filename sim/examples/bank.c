/* bank.c - `repeats` repeats of fp32 add at given places of UB, `times` times: what they and bank
 * conflicts cost. */
#include "c_api/asc_simd.h"
#include "examples.h"

EXAMPLE __global__ __vector__ void bank_add(uint32_t src0, uint32_t src1, uint32_t dst,
                                            uint32_t block_stride, uint32_t repeat_stride,
                                            uint32_t repeats, uint32_t times)
{
    enum { COUNT = 4096 };
    asc_init();
    __ubuf__ float *x = (__ubuf__ float *)(asc_get_phy_buf_addr(0) + src0);
    __ubuf__ float *y = (__ubuf__ float *)(asc_get_phy_buf_addr(0) + src1);
    __ubuf__ float *z = (__ubuf__ float *)(asc_get_phy_buf_addr(0) + dst);
    asc_duplicate(x, 1.0f, COUNT);
    asc_duplicate(y, 0.5f, COUNT);
    asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
    for (uint32_t i = 0; i < times; i++) {
        asc_sync_pipe(PIPE_V);
        asc_add(z, x, y, (uint8_t)repeats, 1, (uint8_t)block_stride, 1, 8, (uint8_t)repeat_stride,
                8);
    }
}
