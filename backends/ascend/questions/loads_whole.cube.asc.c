/* n loads of 64 KiB to L0A; -n: to L0B. */
#include "question_fill.asc.h"

CUBE_QUESTION
{
    question_zeros(in);
    for (int64_t i = 0; i < n; i++) {
        asc_copy_l12l0a(L0_A, L1_A, 0, 128, 1, 0);
        asc_sync_pipe(PIPE_MTE1);
    }
    for (int64_t i = 0; i > n; i--) {
        asc_copy_l12l0b(L0_B, L1_B, 0, 128, 1, 0);
        asc_sync_pipe(PIPE_MTE1);
    }
}
