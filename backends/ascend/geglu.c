/* geglu.c - host of kernels/geglu.asc.c. */
#include "ascend.h"
#include "kernels/geglu.args.h"

enum { FORWARD, BACKWARD };

ASCEND_KERNEL(geglu_forward, GEGLU_FORWARD);
ASCEND_KERNEL(geglu_backward, GEGLU_BACKWARD);

static const char *const options[] = {"exact", NULL};

const tg_ub_kernel ascend_ub_geglu[] = {
    [FORWARD] = {.name = "geglu_forward.flat",
                 ASCEND_BUFFERS(geglu_forward),
                 .flat = 1,
                 .option = options},
    [BACKWARD] = {.name = "geglu_backward.flat",
                  ASCEND_BUFFERS(geglu_backward),
                  .flat = 1,
                  .option = options},
    {0},
};

static uint32_t options_of(int64_t exact)
{
    return exact ? GEGLU_EXACT : 0;
}

tg_status ascend_geglu_forward(tg_ctx *ctx, const tg_geglu_forward_args *args)
{
    return ASCEND_RUN_FLAT(ctx, &ascend_ub_geglu[FORWARD], options_of(args->exact), geglu_forward,
                           .gate = args->gate, .up = args->up, .y = args->y, .exact = args->exact);
}

tg_status ascend_geglu_backward(tg_ctx *ctx, const tg_geglu_backward_args *args)
{
    return ASCEND_RUN_FLAT(ctx, &ascend_ub_geglu[BACKWARD], options_of(args->exact), geglu_backward,
                           .dy = args->dy, .gate = args->gate, .up = args->up, .dgate = args->dgate,
                           .dup = args->dup, .exact = args->exact);
}
