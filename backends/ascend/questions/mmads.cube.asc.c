/* n products of 128 x 64 x 256; -n: of 16 x 16 x 16, each issued when the one before has ended. */
#include "question_fill.asc.h"

CUBE_QUESTION
{
    question_zeros(in);
    for (int64_t i = 0; i < n; i++)
        asc_mmad(L0_C, L0_A, L0_B, 128, 64, 256, 0, false, false, true);
    for (int64_t i = 0; i > n; i--) {
        asc_mmad(L0_C, L0_A, L0_B, 16, 16, 16, 0, false, false, true);
        asc_sync_notify(PIPE_M, PIPE_S, EVENT_ID0);
        asc_sync_wait(PIPE_M, PIPE_S, EVENT_ID0);
    }
}
