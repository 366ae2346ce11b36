/* A copy out behind n products, which waits by a flag from M to FIX alone. */
#include "question_product.asc.h"

CUBE_QUESTION
{
    question_operands(in, 0, 0, 32);
    asc_set_l0c_copy_params(1, 0, 0);
    for (int64_t i = 0; i < n; i++) {
        asc_mmad(L0_C, L0_A, L0_B, 32, 32, 32, 0, false, false, i == 0);
        asc_sync_pipe(PIPE_M);
    }
    asc_sync_notify(PIPE_M, PIPE_FIX, EVENT_ID0);
    asc_sync_wait(PIPE_M, PIPE_FIX, EVENT_ID0);
    asc_copy_l0c2gm(out, L0_C, 32, 32, 32, 32, 0, NoQuant, 0, false, true);
}
