/* The same of a copy out. */
#include "question.asc.h"

QUESTION
{
    question_in(in, 16);
    asc_copy_ub2gm_align(out, UB_IN, 2, 32, 0, 0, 0, 32);
}
