/* in[0] + in[0] in half, beyond its largest number, with CTRL as asc_init() leaves it. */
#include "question.asc.h"

QUESTION
{
    question_in(in, 64);
    __ubuf__ half *narrow = (__ubuf__ half *)asc_get_phy_buf_addr(32768);
    asc_float2half_rn(narrow, UB_IN, 64);
    asc_sync_pipe(PIPE_V);
    asc_add(narrow + 128, narrow, narrow, 64);
    asc_sync_pipe(PIPE_V);
    asc_half2float(UB_OUT, narrow + 128, 64);
    question_out(out, UB_OUT, 64);
}
