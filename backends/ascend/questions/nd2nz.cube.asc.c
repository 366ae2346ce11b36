/* n copies of 256 rows of 32 B to L1 as columns of blocks; -n: of 16 rows of 1024 B. */
#include "question_fill.asc.h"

CUBE_QUESTION
{
    asc_init();
    __gm__ half *x = (__gm__ half *)in;
    for (int64_t i = 0; i < n; i++)
        asc_copy_gm2l1_nd2nz(L1_A + i * 4096, x, 1, 256, 16, 0, 512, 256, 1, 0);
    for (int64_t i = 0; i > n; i--)
        asc_copy_gm2l1_nd2nz(L1_A - i * 8192, x, 1, 16, 512, 0, 512, 16, 1, 0);
}
