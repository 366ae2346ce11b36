/* One copy in of n bursts of 32 B. */
#include "question.asc.h"

QUESTION
{
    asc_init();
    asc_copy_gm2ub_align(UB_IN, in, (uint16_t)n, 32, 0, 0, 32, 0);
    question_out(out, UB_IN, 8);
}
