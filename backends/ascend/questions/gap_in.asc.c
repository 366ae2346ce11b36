/* Two bursts of 32 B: where does the second begin with a gap of 32? */
#include "question.asc.h"

QUESTION
{
    question_in(in, 16);
    asc_copy_gm2ub_align(UB_IN, in, 2, 32, 0, 0, 32, 0);
    question_out(out, UB_IN, 16);
}
