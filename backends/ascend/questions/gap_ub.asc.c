/* Two bursts of 32 B: where in UB does the second lie with a gap of 1? */
#include "question.asc.h"

QUESTION
{
    asc_init();
    asc_duplicate(UB_IN, -1.0f, 64);
    asc_sync();
    asc_copy_gm2ub_align(UB_IN, in, 2, 32, 0, 0, 0, 1);
    question_out(out, UB_IN, 64);
}
