/* x * x + y, in[0] and in[64], rounded once or twice? n is 0 fma, 1 mul_add, 2 axpy. */
#include "question.asc.h"

QUESTION
{
    question_in(in, 128);
    asc_add_scalar(UB_OUT, n == 1 ? UB_IN : UB_IN + 64, 0.0f, 64);
    asc_sync_pipe(PIPE_V);
    if (n == 0)
        asc_fma(UB_OUT, UB_IN, UB_IN, 64);
    else if (n == 1)
        asc_mul_add(UB_OUT, UB_IN, UB_IN + 64, 64);
    else
        asc_axpy(UB_OUT, UB_IN, 1.000244140625f, 64);
    question_out(out, UB_OUT, 64);
}
