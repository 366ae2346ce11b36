/* n loads of 64 KiB to L0A while as many copies of 16 KiB come to L1; -n: without these. */
#include "question_fill.asc.h"

CUBE_QUESTION
{
    question_zeros(in);
    const int64_t times = n < 0 ? -n : n;
    for (int64_t i = 0; i < times; i++) {
        asc_copy_l12l0a(L0_A, L1_A, 0, 128, 1, 0);
        if (n > 0)
            asc_copy_gm2l1_nd2nz(L1_B, (__gm__ half *)in, 1, 16, 512, 0, 512, 16, 1, 0);
    }
}
