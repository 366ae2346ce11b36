/* n copies of 128 B; -n: of 32 KiB. */
#include "question.asc.h"

QUESTION
{
    asc_init();
    for (int64_t i = 0; i < n; i++)
        asc_copy_gm2ub(UB_IN + i * 32, in + i * 32, 128);
    for (int64_t i = 0; i > n; i--)
        asc_copy_gm2ub(UB_IN - i * 8192, in - i * 8192, 32768);
    question_out(out, UB_IN, 32);
}
