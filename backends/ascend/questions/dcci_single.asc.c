/* Can a kernel call it? */
#include "question.asc.h"

QUESTION
{
    question_in(in, 16);
    asc_dcci_single(in);
    question_out(out, UB_IN, 16);
}
