/* n copies of 32 B, each of which S waits for. */
#include "question.asc.h"

QUESTION
{
    asc_init();
    for (int64_t i = 0; i < n; i++) {
        asc_copy_gm2ub(UB_IN + i * 8, in + i * 8, 32);
        asc_sync_notify(PIPE_MTE2, PIPE_S, EVENT_ID0);
        asc_sync_wait(PIPE_MTE2, PIPE_S, EVENT_ID0);
    }
    question_out(out, UB_IN, 8);
}
