/* softmax_jsd.c - host of kernels/losses/softmax_jsd*.asc.c, between launches that count labels and
 * add up losses (terms.c). */
#include "kernels/losses/softmax_jsd.args.h"
#include "terms.h"

#include <math.h>

ASCEND_KERNEL(softmax_jsd, SOFTMAX_JSD);
ASCEND_KERNEL(softmax_jsd_short, SOFTMAX_JSD_SHORT);

enum { FORWARD, BACKWARD, SHORT };

ASCEND_KERNELS(softmax_jsd) = {
    [FORWARD] = {.name = "softmax_jsd_forward", ASCEND_BUFFERS(softmax_jsd), .max_rows = 1},
    [BACKWARD] = {.name = "softmax_jsd_backward", ASCEND_BUFFERS(softmax_jsd), .max_rows = 1},
    [SHORT] = ASCEND_SHORT("softmax_jsd.short", softmax_jsd_short),
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

/* Rows of few classes, transposed, whose gradient is of their type. */
static tg_status plan_short(ascend_plan *plan, const sjsd_call *c, int *is_short)
{
    *is_short = 0;
    if (c->dstudent && tg_type_of(c->dstudent) != tg_type_of(c->student))
        return TG_OK;
    return ASCEND_CHOOSE_SHORT(plan, &ascend_ub_softmax_jsd[SHORT],
                               c->dstudent ? SOFTMAX_JSD_WRITES : 0, is_short, c->student,
                               c->teacher, c->dstudent);
}

/* What both kernels are given: of a mixture's beta, which is kept from 0 as jsd's is. */
#define SJSD_GIVEN_BY(c)                                                                       \
    .student = (c)->student, .teacher = (c)->teacher, .dstudent = (c)->dstudent,               \
    .dloss = (c)->dloss, .labels = &labels, .counts = &parts.counts,                           \
    .sums = (c)->loss ? &parts.sums : &none, .kind = kind, .ignore_index = (c)->ignore_index,  \
    .count_blocks = parts.count_blocks, .scale = 1 / (c)->temperature,                         \
    .factor = share * weight * (c)->grad_scale / (c)->temperature, .beta = beta, .rest = rest, \
    .odds = beta / rest, .log_rest = log(rest)

static tg_status run(tg_ctx *ctx, const tg_ub_kernel *ub, const sjsd_call *c)
{
    const double least = 0x1p-24;
    const double beta = fmin(fmax(c->beta, least), 1 - least), rest = 1 - beta;
    const int64_t kind = c->beta == 0   ? SOFTMAX_JSD_FORWARD
                         : c->beta == 1 ? SOFTMAX_JSD_REVERSE
                                        : SOFTMAX_JSD_MIXTURE;
    const int64_t rows = tg_rows_of(c->student).rows, batch = c->batch ? c->batch : rows;
    const double share = c->labels ? 1 : batch ? 1 / (double)batch : 0;
    const double weight = kind == SOFTMAX_JSD_MIXTURE ? 1 - c->beta : 1;
    const int slopes = c->dstudent && kind != SOFTMAX_JSD_FORWARD;
    ascend_memory labels = ascend_memory_of(c->labels);
    const ascend_memory none = {NULL, 0};
    ascend_plan plan;
    terms_parts parts;
    int is_short;
    if (c->labels) { /* of these rows */
        labels.at = (const int64_t *)labels.at + c->first;
        labels.bytes = (size_t)rows * sizeof(int64_t);
    }
    ASCEND_TRY(plan_short(&plan, c, &is_short));
    if (!is_short) {
        ASCEND_TRY(ascend_begin_rows(&plan, ub, c->student, 0));
        ASCEND_TRY(ascend_choose(&plan));
    }
    ASCEND_TRY(ascend_begin_parts(ctx, plan.problem.cores, &parts));
    if (c->labels)
        ASCEND_TRY(ascend_count_labels(ctx, c->labels, c->ignore_index, &parts));
    if (is_short)
        ASCEND_TRY(ASCEND_LAUNCH(ctx, &plan, softmax_jsd_short, SJSD_GIVEN_BY(c),
                                 .near = log((sqrt(rest) - rest) / beta)));
    else
        ASCEND_TRY(ASCEND_LAUNCH(ctx, &plan, softmax_jsd, SJSD_GIVEN_BY(c),
                                 .reads = 1 + (c->loss || slopes) + slopes,
                                 .out = ascend_any(c->dstudent)));
    return c->loss ? ascend_terms_total(ctx, c->loss, &parts, plan.layout.blocks, share) : TG_OK;
}

ASCEND_OPERATOR(softmax_jsd_forward, TG_TAKES_FLOATS);
ASCEND_OPERATOR(softmax_jsd_backward, TG_TAKES_FLOATS);

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
