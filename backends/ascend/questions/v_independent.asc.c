/* n additions of 8 repeats that need nothing of each other. */
#include "question.asc.h"

QUESTION
{
    question_in(in, 1152);
    asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
    for (int64_t i = 0; i < n; i++)
        asc_add(UB_OUT + i * 512, UB_IN, UB_IN + 520, 8, 1, 1, 1, 8, 8, 8);
    question_out(out, UB_OUT, 512);
}
