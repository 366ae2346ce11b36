/* question_fill.asc.h - zeros for a cube core's instructions whose time alone is asked for. */
#include "question_product.asc.h"

static inline __aicore__ void question_zeros(__gm__ float *in)
{
    asc_init();
    asc_fill_value_config whole;
    whole.config = 0;
    whole.repeat = 1;
    whole.blk_num = 128;
    asc_fill_l0a(L0_A, (half)0.0f, whole);
    asc_fill_l0b(L0_B, (half)0.0f, whole);
    asc_copy_gm2l1((__cbuf__ void *)L1_A, (__gm__ void *)in, 131072);
    asc_copy_gm2l1((__cbuf__ void *)L1_B, (__gm__ void *)in, 131072);
    asc_sync();
}
