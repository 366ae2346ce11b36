/* softmax_kl_div.c - host of kernels/losses/softmax_kl_div.asc.c, between launches that count
 * labels and add up losses (terms.c). */
#include "kernels/losses/softmax_kl_div.args.h"
#include "terms.h"

#include <float.h>
#include <math.h>

ASCEND_KERNEL(softmax_kl_div, SOFTMAX_KL_DIV);

enum { FORWARD, BACKWARD };

static const char *const options[] = {"4 bytes", "6 bytes", "8 bytes", NULL};

#define SKL_KERNEL(title)                                                                    \
    {                                                                                        \
        .name = title, ASCEND_BUFFERS(softmax_kl_div), .max_rows = 1, .column_multiple = 16, \
        .option = options                                                                    \
    }

ASCEND_KERNELS(softmax_kl_div) = {[FORWARD] = SKL_KERNEL("softmax_kl_div_forward"),
                                  [BACKWARD] = SKL_KERNEL("softmax_kl_div_backward"),
                                  {0}};

/* A call of either direction. */
typedef struct skl_call {
    const tg_tensor *logits, *target, *labels, *dloss, *loss, *dlogits;
    int64_t reduction, ignore_index, first, batch;
    double eps, temperature, grad_scale;
} skl_call;

#define SKL_CALL(args)                                                                             \
    .logits = (args)->logits, .target = (args)->target, .labels = (args)->labels,                  \
    .dloss = (args)->dloss, .dlogits = (args)->dlogits, .reduction = (args)->reduction,            \
    .ignore_index = (args)->ignore_index, .first = (args)->first_row, .batch = (args)->batch_rows, \
    .temperature = (args)->temperature, .grad_scale = (args)->grad_scale

/* What the reduction gives to each row, but for the number of those that labels leave. */
static double share_of(const skl_call *c, int64_t rows, int64_t columns)
{
    const double batch = (double)(c->batch ? c->batch : rows);
    const double divisor =
        (c->labels ? 1 : batch) * (c->reduction == TG_MEAN ? (double)columns : 1);
    return c->reduction == TG_SUM ? 1 : divisor != 0 ? 1 / divisor : 0;
}

static int bytes_of(const tg_tensor *t)
{
    return ascend_any(t) == ASC_ANY_F32 ? 4 : 2;
}

static tg_status run(tg_ctx *ctx, const tg_ub_kernel *ub, const skl_call *c)
{
    const tg_rows rows = tg_rows_of(c->logits);
    const double share = share_of(c, rows.rows, rows.n);
    ascend_memory labels = ascend_memory_of(c->labels);
    const ascend_memory none = {NULL, 0};
    const int in = bytes_of(c->logits) + bytes_of(c->target);
    ascend_plan plan;
    terms_parts parts;
    if (c->labels) { /* of these rows */
        labels.at = (const int64_t *)labels.at + c->first;
        labels.bytes = (size_t)rows.rows * sizeof(int64_t);
    }
    ASCEND_TRY(ascend_begin_rows(&plan, ub, c->logits,
                                 in == 4   ? SKL_BYTES_4
                                 : in == 6 ? SKL_BYTES_6
                                           : SKL_BYTES_8));
    ASCEND_TRY(ascend_choose(&plan));
    ASCEND_TRY(ascend_begin_parts(ctx, plan.problem.cores, &parts));
    if (c->labels && c->reduction != TG_SUM)
        ASCEND_TRY(ascend_count_labels(ctx, c->labels, c->ignore_index, &parts));
    ASCEND_TRY(ASCEND_LAUNCH(
        ctx, &plan, softmax_kl_div, .logits = c->logits, .target = c->target, .dlogits = c->dlogits,
        .dloss = c->dloss, .labels = &labels, .counts = &parts.counts,
        .sums = c->loss ? &parts.sums : &none, .ignore_index = c->ignore_index,
        .count_blocks = parts.count_blocks, .scale = 1 / c->temperature,
        .factor = share * c->grad_scale / c->temperature, .least = fmax(c->eps, FLT_MIN),
        .target_type = ascend_any(c->target), .out = ascend_any(c->dlogits),
        .behind =
            c->dlogits && ascend_ring_behind(&plan, rows.n * in, rows.n * bytes_of(c->dlogits))));
    return c->loss ? ascend_terms_total(ctx, c->loss, &parts, plan.layout.blocks, share) : TG_OK;
}

ASCEND_OPERATOR(softmax_kl_div_forward, TG_TAKES_FLOATS);
ASCEND_OPERATOR(softmax_kl_div_backward, TG_TAKES_FLOATS);

tg_status ascend_softmax_kl_div_forward(tg_ctx *ctx, const tg_softmax_kl_div_forward_args *args)
{
    const skl_call call = {SKL_CALL(args), .loss = args->loss, .eps = args->eps};
    return run(ctx, &ascend_ub_softmax_kl_div[FORWARD], &call);
}

tg_status ascend_softmax_kl_div_backward(tg_ctx *ctx, const tg_softmax_kl_div_backward_args *args)
{
    const skl_call call = {SKL_CALL(args)};
    return run(ctx, &ascend_ub_softmax_kl_div[BACKWARD], &call);
}
