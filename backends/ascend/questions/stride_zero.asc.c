/* A repeat whose results have a block stride of 0: do its blocks lie over each other? */
#include "question.asc.h"

QUESTION
{
    question_in(in, 64);
    asc_duplicate(UB_OUT, -1.0f, 64);
    asc_sync_pipe(PIPE_V);
    asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
    asc_add(UB_OUT, UB_IN, UB_IN, 1, 0, 1, 1, 8, 8, 8);
    question_out(out, UB_OUT, 64);
}
