/* question_rounds.asc.h - the cores of a block signal each other, n rounds there and back; then
 * out[0] is 5. */
#include "question.asc.h"

static inline __aicore__ void question_rounds(__gm__ float *out, int64_t n)
{
    asc_init();
    for (int64_t i = 0; i < n; i++) {
        if ASC_IS_AIC {
            asc_sync_block_wait(PIPE_S, 1);
            asc_sync_block_arrive(PIPE_FIX, 2);
        } else {
            asc_sync_block_arrive(PIPE_MTE3, 1);
            asc_sync_block_wait(PIPE_S, 2);
        }
    }
    if ASC_IS_AIV {
        asc_duplicate(UB_OUT, 5.0f, 64);
        question_out(out + asc_get_sub_block_id() * 64, UB_OUT, 64);
    }
}
