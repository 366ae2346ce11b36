/* in[0], infinity, as bf16 and back. */
#include "question.asc.h"

QUESTION
{
    question_in(in, 64);
    __ubuf__ bfloat16_t *narrow = (__ubuf__ bfloat16_t *)asc_get_phy_buf_addr(32768);
    asc_float2bfloat16_rn(narrow, UB_IN, 64);
    asc_sync_pipe(PIPE_V);
    asc_bfloat162float(UB_OUT, narrow, 64);
    question_out(out, UB_OUT, 64);
}
