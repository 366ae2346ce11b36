/* question.asc.h - a kernel that asks a card one thing which CANN's pages leave open, or that the
 * model only estimates. Each is a file and a binary of its own, so that one that does not compile,
 * or stops the card, takes no other with it; questions.inc says what its numbers mean.
 *
 * in and out: QUESTION_BYTES each. n: which variant, or how often. */
#ifndef QUESTION_ASC_H
#define QUESTION_ASC_H

#include "shared/asc_common.h"

#define QUESTION ASC_KERNEL question(__gm__ float *in, __gm__ float *out, int64_t n)
#define CUBE_QUESTION ASC_CUBE_KERNEL question(__gm__ float *in, __gm__ float *out, int64_t n)
#define MIX_QUESTION \
    ASC_MIX_KERNEL question(__gm__ float *in, __gm__ float *out, int64_t n, uint64_t sync)

/* Floats of a vector core's buffer: what was copied in, and at 64 KiB what goes out. */
#define UB_IN ((__ubuf__ float *)asc_get_phy_buf_addr(0))
#define UB_OUT ((__ubuf__ float *)asc_get_phy_buf_addr(65536))

static inline __aicore__ void question_in(__gm__ float *in, int64_t floats)
{
    asc_init();
    asc_copy_gm2ub(UB_IN, in, (uint32_t)(floats * 4));
    asc_sync();
}

static inline __aicore__ void question_out(__gm__ float *out, __ubuf__ float *from, int64_t floats)
{
    asc_sync();
    asc_copy_ub2gm(out, from, (uint32_t)(floats * 4));
}

#endif
