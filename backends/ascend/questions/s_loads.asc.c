/* n loads of S from UB; -n: from a line of global memory that its cache has. */
#include "question.asc.h"

QUESTION
{
    question_in(in, 64);
    asc_duplicate(UB_OUT, 0.0f, 64);
    asc_sync();
    volatile float sum = 0.0f;
    for (int64_t i = 0; i < n; i++)
        sum = *(volatile __ubuf__ float *)(UB_IN + (i & 7));
    for (int64_t i = 0; i > n; i--)
        sum = *(volatile __gm__ float *)(in + (-i & 7));
    UB_OUT[0] = sum;
    question_out(out, UB_OUT, 8);
}
