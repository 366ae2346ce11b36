/* fused_ce_tvd.c - host of kernels/losses/fused_ce_tvd.asc.c. */
#include "ascend.h"
#include "kernels/losses/fused_ce_tvd.args.h"

ASCEND_KERNEL(fused_ce_tvd_forward, CETVD_FORWARD);
ASCEND_KERNEL(fused_ce_tvd_backward, CETVD_BACKWARD);

enum { FORWARD, BACKWARD };

ASCEND_KERNELS(fused_ce_tvd) = {
    [FORWARD] = {.name = "fused_ce_tvd_forward.ring",
                 ASCEND_BUFFERS(fused_ce_tvd_forward),
                 .max_rows = 1},
    [BACKWARD] = {.name = "fused_ce_tvd_backward.ring",
                  ASCEND_BUFFERS(fused_ce_tvd_backward),
                  .max_rows = 1},
    {0},
};

/* Rows of logits, of which a plan has one column at least; neighbours to each block. */
static tg_status choose(ascend_plan *plan, int kernel, const tg_tensor *student, int64_t *share)
{
    const tg_rows rows = tg_rows_of(student);
    ASCEND_TRY(ascend_begin(plan, &ascend_ub_fused_ce_tvd[kernel], student, rows.rows,
                            rows.n ? rows.n : 1, rows.type, 0));
    ASCEND_TRY(ascend_choose(plan));
    *share = ascend_share_rows(plan);
    return TG_OK;
}

#define CETVD_GIVEN_BY(a, share_)                                                          \
    .student = (a)->student, .teacher = (a)->teacher, .target = (a)->target,               \
    .student_lse = (a)->student_lse, .teacher_lse = (a)->teacher_lse, .sigma = (a)->sigma, \
    .columns = tg_rows_of((a)->student).n, .share = (share_), .ignore_index = (a)->ignore_index

ASCEND_OPERATOR(fused_ce_tvd_forward, TG_TAKES_FLOATS);
ASCEND_OPERATOR(fused_ce_tvd_backward, TG_TAKES_FLOATS);

tg_status ascend_fused_ce_tvd_forward(tg_ctx *ctx, const tg_fused_ce_tvd_forward_args *args)
{
    /* The second pass takes a third of the first one's time where memory bounds that. Rows that L2
     * does not hold two of to a core are gone through again as soon as possible. */
    enum { AT_ONCE = 3 };
    ascend_plan plan;
    int64_t share;
    ASCEND_TRY(choose(&plan, FORWARD, args->student, &share));
    const int64_t bytes = 2 * plan.problem.columns * plan.problem.dtype_bytes;
    return ASCEND_LAUNCH(ctx, &plan, fused_ce_tvd_forward, CETVD_GIVEN_BY(args, share),
                         .behind = ascend_ring_behind(&plan, bytes, 0) ? 1 : AT_ONCE,
                         .ce = args->ce, .tvd = args->tvd);
}

tg_status ascend_fused_ce_tvd_backward(tg_ctx *ctx, const tg_fused_ce_tvd_backward_args *args)
{
    ascend_plan plan;
    int64_t share;
    ASCEND_TRY(choose(&plan, BACKWARD, args->student, &share));
    return ASCEND_LAUNCH(ctx, &plan, fused_ce_tvd_backward, CETVD_GIVEN_BY(args, share),
                         .dce = args->dce, .dtvd = args->dtvd, .dstudent = args->dstudent);
}
