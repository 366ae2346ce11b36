/* lanes_kernels.c - one kernel that runs any lane-by-lane function in any of its forms on an image
 * of UB. */
#include "c_api/asc_simd.h"
#include "lanes.h"

#define RUN(function, D, S) \
    static void run_##function##_##D##_##S(const request *r, D *dst, S *src0, S *src1)
#define BINARY(function, D, S, ...)                                                     \
    RUN(function, D, S)                                                                 \
    {                                                                                   \
        if (r->form == FORM_COUNT)                                                      \
            function(dst, src0, src1, r->count);                                        \
        else if (r->form == FORM_SYNC)                                                  \
            function##_sync(dst, src0, src1, r->count);                                 \
        else                                                                            \
            function(dst, src0, src1, r->repeat, r->block[0], r->block[1], r->block[2], \
                     r->step[0], r->step[1], r->step[2]);                               \
    }
#define UNARY(function, D, S, ...)                                                            \
    RUN(function, D, S)                                                                       \
    {                                                                                         \
        (void)src1;                                                                           \
        if (r->form == FORM_COUNT)                                                            \
            function(dst, src0, r->count);                                                    \
        else if (r->form == FORM_SYNC)                                                        \
            function##_sync(dst, src0, r->count);                                             \
        else                                                                                  \
            function(dst, src0, r->repeat, r->block[0], r->block[1], r->step[0], r->step[1]); \
    }
#define NEAR UNARY
#define CONVERT UNARY
#define VALUED(function, D, S, ...)                                                     \
    RUN(function, D, S)                                                                 \
    {                                                                                   \
        (void)src1;                                                                     \
        const S value = (S)r->value;                                                    \
        if (r->form == FORM_COUNT)                                                      \
            function(dst, src0, value, r->count);                                       \
        else if (r->form == FORM_SYNC)                                                  \
            function##_sync(dst, src0, value, r->count);                                \
        else                                                                            \
            function(dst, src0, value, r->repeat, r->block[0], r->block[1], r->step[0], \
                     r->step[1]);                                                       \
    }
#define SHIFTED VALUED
#define FILLED(function, D)                                                      \
    static void run_##function##_##D(const request *r, D *dst, D *src0, D *src1) \
    {                                                                            \
        (void)src0, (void)src1;                                                  \
        const D value = (D)r->value;                                             \
        if (r->form == FORM_COUNT)                                               \
            function(dst, value, r->count);                                      \
        else if (r->form == FORM_SYNC)                                           \
            function##_sync(dst, value, r->count);                               \
        else                                                                     \
            function(dst, value, r->repeat, r->block[0], r->step[0]);            \
    }
#include "lanes.inc"
#undef BINARY
#undef UNARY
#undef NEAR
#undef CONVERT
#undef VALUED
#undef SHIFTED
#undef FILLED

static void run(const request *r, void *dst, void *src0, void *src1)
{
    switch (r->function) {
#define BINARY(function, D, S, ...)                     \
    case function##_##D##_##S:                          \
        run_##function##_##D##_##S(r, dst, src0, src1); \
        break;
#define UNARY BINARY
#define NEAR BINARY
#define CONVERT BINARY
#define VALUED BINARY
#define SHIFTED BINARY
#define FILLED(function, D)                       \
    case function##_##D:                          \
        run_##function##_##D(r, dst, src0, src1); \
        break;
#include "lanes.inc"
    }
}

/* Block i: request i on image i. */
__global__ __vector__ void lane_kernel(__gm__ request *requests, __gm__ uint8_t *in,
                                       __gm__ uint8_t *out)
{
    asc_init();
    const int64_t block = asc_get_block_idx();
    const request *r = requests + block;
    __ubuf__ uint8_t *ub = (__ubuf__ uint8_t *)asc_get_phy_buf_addr(0);
    asc_copy_gm2ub(ub, in + block * IMAGE, IMAGE);
    asc_sync_notify(PIPE_MTE2, PIPE_V, EVENT_ID0);
    asc_sync_wait(PIPE_MTE2, PIPE_V, EVENT_ID0);
    if (r->form == FORM_COUNTER)
        asc_set_mask_count();
    asc_set_vector_mask(r->mask[1], r->mask[0]);
    run(r, ub + r->dst, ub + r->src0, ub + r->src1);
    asc_set_mask_norm();
    asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
    asc_sync_notify(PIPE_V, PIPE_MTE3, EVENT_ID0);
    asc_sync_wait(PIPE_V, PIPE_MTE3, EVENT_ID0);
    asc_copy_ub2gm(out + block * IMAGE, ub, IMAGE);
}
