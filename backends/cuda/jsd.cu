/* jsd.cu - the generalised Jensen-Shannon divergence. */
#include "jsd.cuh"

tg_status cuda_jsd_forward(tg_ctx *ctx, const tg_jsd_forward_args *args)
{
    divergence_call c = {};
    c.op = "jsd_forward";
    c.x = args->student;
    c.y = args->teacher;
    c.labels = args->labels;
    c.dloss = args->dloss;
    c.loss = args->loss;
    c.dx = args->dstudent;
    c.ignore_index = args->ignore_index;
    c.by_rows = 1;
    return by_beta(args->beta, [&](auto loss) { return divergence_run(ctx, loss, c); });
}

tg_status cuda_jsd_backward(tg_ctx *ctx, const tg_jsd_backward_args *args)
{
    divergence_call c = {};
    c.op = "jsd_backward";
    c.x = args->student;
    c.y = args->teacher;
    c.labels = args->labels;
    c.dloss = args->dloss;
    c.dx = args->dstudent;
    c.ignore_index = args->ignore_index;
    c.by_rows = 1;
    return by_beta(args->beta, [&](auto loss) { return divergence_run(ctx, loss, c); });
}
