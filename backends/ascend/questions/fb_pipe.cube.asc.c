/* n loads of 16 KiB to L0A with as many copies to the fixpipe buffer; -n: without these. */
#include "question_fill.asc.h"

CUBE_QUESTION
{
    question_zeros(in);
    __fbuf__ void *buffer = (__fbuf__ void *)asc_get_phy_buf_addr(0);
    const int64_t times = n < 0 ? -n : n;
    for (int64_t i = 0; i < times; i++) {
        asc_copy_l12l0a(L0_A, L1_A, 0, 32, 1, 0);
        if (n > 0)
            asc_copy_l12fb(buffer, (__cbuf__ void *)L1_B, 2048);
    }
}
