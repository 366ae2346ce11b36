/* softmax_jsd.c - host of kernels/softmax_jsd.asc.c, between launches that count labels and add up losses (terms.c). */
#include "kernels/softmax_jsd.args.h"
#include "terms.h"

#include <math.h>

ASCEND_KERNEL(softmax_jsd, SOFTMAX_JSD);

enum { FORWARD, BACKWARD };

const tg_ub_kernel ascend_ub_softmax_jsd[] = {
    [FORWARD] = {.name = "softmax_jsd_forward", ASCEND_BUFFERS(softmax_jsd), .max_rows = 1},
    [BACKWARD] = {.name = "softmax_jsd_backward", ASCEND_BUFFERS(softmax_jsd), .max_rows = 1},
    {0},
};

/* A call of either direction. */
typedef struct sjsd_call {
    const tg_tensor *student, *teacher, *labels, *dloss, *loss, *dstudent;
    int64_t ignore_index, first, batch;
    double beta, temperature, grad_scale;
} sjsd_call;

#define SJSD_CALL(args)                                                                         \
    .student = (args)->student, .teacher = (args)->teacher, .labels = (args)->labels,           \
    .dloss = (args)->dloss, .dstudent = (args)->dstudent, .ignore_index = (args)->ignore_index, \
    .first = (args)->first_row, .batch = (args)->batch_rows, .beta = (args)->beta,              \
    .temperature = (args)->temperature, .grad_scale = (args)->grad_scale

static tg_status run(tg_ctx *ctx, const tg_ub_kernel *ub, const sjsd_call *c)
{
    const double least = 0x1p-24; /* a mixture's beta is kept from 0, as jsd's is */
    const double beta = fmin(fmax(c->beta, least), 1 - least), rest = 1 - beta;
    const int64_t kind = c->beta == 0   ? SOFTMAX_JSD_FORWARD
                         : c->beta == 1 ? SOFTMAX_JSD_REVERSE
                                        : SOFTMAX_JSD_MIXTURE;
    const int64_t rows = ascend_rows_of(c->student).rows, batch = c->batch ? c->batch : rows;
    const double share = c->labels ? 1 : batch ? 1 / (double)batch : 0;
    const double weight = kind == SOFTMAX_JSD_MIXTURE ? 1 - c->beta : 1;
    const int slopes = c->dstudent && kind != SOFTMAX_JSD_FORWARD;
    ascend_memory labels = ascend_memory_of(c->labels);
    const ascend_memory none = {NULL, 0};
    ascend_plan plan;
    terms_parts parts;
    if (c->labels) { /* of these rows */
        labels.at = (const int64_t *)labels.at + c->first;
        labels.bytes = (size_t)rows * sizeof(int64_t);
    }
    ASCEND_TRY(ascend_begin_rows(&plan, ub, c->student, 0));
    ASCEND_TRY(ascend_choose(&plan));
    ASCEND_TRY(ascend_begin_parts(ctx, plan.problem.cores, &parts));
    if (c->labels)
        ASCEND_TRY(ascend_count_labels(ctx, c->labels, c->ignore_index, &parts));
    ASCEND_TRY(ASCEND_LAUNCH(
        ctx, &plan, softmax_jsd, .student = c->student, .teacher = c->teacher,
        .dstudent = c->dstudent, .dloss = c->dloss, .labels = &labels, .counts = &parts.counts,
        .sums = c->loss ? &parts.sums : &none, .kind = kind,
        .reads = 1 + (c->loss || slopes) + slopes, .out = ascend_any(c->dstudent),
        .ignore_index = c->ignore_index, .count_blocks = parts.count_blocks,
        .scale = 1 / c->temperature, .factor = share * weight * c->grad_scale / c->temperature,
        .beta = beta, .rest = rest, .odds = beta / rest, .log_rest = log(rest)));
    return c->loss ? ascend_terms_total(ctx, c->loss, &parts, plan.layout.blocks, share) : TG_OK;
}

tg_status ascend_softmax_jsd_forward(tg_ctx *ctx, const tg_softmax_jsd_forward_args *args)
{
    const sjsd_call call = {SJSD_CALL(args), .loss = args->loss};
    return run(ctx, &ascend_ub_softmax_jsd[FORWARD], &call);
}

tg_status ascend_softmax_jsd_backward(tg_ctx *ctx, const tg_softmax_jsd_backward_args *args)
{
    const sjsd_call call = {SJSD_CALL(args)};
    return run(ctx, &ascend_ub_softmax_jsd[BACKWARD], &call);
}
