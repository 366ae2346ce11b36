/* n calls that S does alone. */
#include "question.asc.h"

QUESTION
{
    question_in(in, 64);
    for (int64_t i = 0; i < n; i++)
        asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
    question_out(out, UB_IN, 64);
}
