/* Launched twice, and in[0] is changed between: does S still see the old one? */
#include "question.asc.h"

QUESTION
{
    asc_init();
    asc_duplicate(UB_IN, 0.0f, 64);
    asc_sync();
    UB_IN[0] = in[0];
    question_out(out, UB_IN, 8);
}
