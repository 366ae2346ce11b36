/* n additions of a repeat, each behind the one before; -n: in the count form. */
#include "question.asc.h"

QUESTION
{
    question_in(in, 64);
    asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
    for (int64_t i = 0; i < n; i++) {
        asc_add(UB_IN, UB_IN, UB_IN, 1, 1, 1, 1, 8, 8, 8);
        asc_sync_pipe(PIPE_V);
    }
    for (int64_t i = 0; i > n; i--) {
        asc_add(UB_IN, UB_IN, UB_IN, 64);
        asc_sync_pipe(PIPE_V);
    }
    question_out(out, UB_IN, 64);
}
