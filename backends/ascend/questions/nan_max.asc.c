/* The larger of in[0], a NaN, and in[64], a number. */
#include "question.asc.h"

QUESTION
{
    question_in(in, 128);
    asc_max(UB_OUT, UB_IN, UB_IN + 64, 64);
    question_out(out, UB_OUT, 64);
}
