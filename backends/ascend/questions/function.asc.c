/* What a function gives: n is 0 exp, 1 rcp, 2 rsqrt, 3 log. */
#include "question.asc.h"

QUESTION
{
    question_in(in, 64);
    if (n == 0)
        asc_exp(UB_OUT, UB_IN, 64);
    else if (n == 1)
        asc_rcp(UB_OUT, UB_IN, 64);
    else if (n == 2)
        asc_rsqrt(UB_OUT, UB_IN, 64);
    else
        asc_log(UB_OUT, UB_IN, 64);
    question_out(out, UB_OUT, 64);
}
