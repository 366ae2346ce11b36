/* kernel.c - runs a program of order.c, a call or a plain load or store a step. */
#include "order.h"

#include "c_api/asc_simd.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT program order_program;

#define UB(offset) ((__ubuf__ float *)(asc_get_phy_buf_addr(0) + (offset)))

static void one(const step *s, __gm__ unsigned char *memory, volatile float *sink)
{
    switch (s->kind) {
    case COPY_IN:
        asc_copy_gm2ub_align(UB(s->dst), (__gm__ float *)(memory + s->a), s->bytes);
        break;
    case ADD:
        asc_add(UB(s->dst), UB(s->a), UB(s->b), s->bytes / 4);
        break;
    case COPY_OUT:
        asc_copy_ub2gm_align((__gm__ float *)(memory + s->dst), UB(s->a), s->bytes);
        break;
    case LOAD:
        *sink += *UB(s->a);
        break;
    case STORE:
        *UB(s->dst) = 3.0f;
        break;
    case SET: /* the API takes literal pipes alone */
        asc_issue_flag(ASC_SITE("set"), ASC_OP_sync_notify, (pipe_t)s->pipe, (pipe_t)s->target,
                       s->event);
        break;
    case WAIT:
        asc_issue_flag(ASC_SITE("wait"), ASC_OP_sync_wait, (pipe_t)s->pipe, (pipe_t)s->target,
                       s->event);
        break;
    default:
        asc_issue_barrier(ASC_SITE("barrier"), s->pipe == ALL ? PIPE_ALL : (pipe_t)s->pipe);
    }
}

EXPORT void order_run(__gm__ unsigned char *memory, __gm__ float *result)
{
    volatile float sink = 0;
    asc_init();
    asc_duplicate_sync(UB(0), 1.0f, SPACE / 4);
    for (int32_t i = 0; i < order_program.count; i++)
        one(&order_program.steps[i], memory, &sink);
    asc_sync();
    *UB(SPACE) = sink;
    asc_sync();
    asc_copy_ub2gm_align(result, UB(0), SPACE + 4);
}
