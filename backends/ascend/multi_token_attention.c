/* multi_token_attention.c - host of kernels/attention/multi_token_attention.asc.c. Probabilities
 * and their gradients are those of softmax or sparsemax. */
#include "ascend.h"
#include "kernels/attention/multi_token_attention.args.h"

enum { MASK, CONVOLVE, PARAMETERS };

ASCEND_KERNEL(mta_mask, MTA_MASK);
ASCEND_KERNEL(mta_convolve, MTA_CONVOLVE);
ASCEND_KERNEL(mta_parameters, MTA_PARAMETERS);

#define MTA_KERNEL(kernel)                                                             \
    {                                                                                  \
        .name = #kernel, ASCEND_BUFFERS(kernel), .column_multiple = 64, .max_rows = 1, \
        .max_columns = 16384                                                           \
    }

ASCEND_KERNELS(multi_token_attention) = {
    [MASK] = MTA_KERNEL(mta_mask),
    [CONVOLVE] = MTA_KERNEL(mta_convolve),
    [PARAMETERS] = MTA_KERNEL(mta_parameters),
    {0},
};

ASCEND_OPERATOR_IF(multi_token_attention_forward, TG_TAKES_FLOATS);
ASCEND_OPERATOR_IF(multi_token_attention_backward, TG_TAKES_FLOATS);

/* A plan of whole rows of a tensor, for all cores. */
static tg_status choose(ascend_plan *plan, int kernel, const tg_tensor *t, uint32_t options)
{
    ASCEND_TRY(ascend_begin_rows(plan, &ascend_ub_multi_token_attention[kernel], t, options));
    if (plan->problem.rows == 0)
        return ascend_choose(plan);
    if (!ascend_fits(plan, 1, plan->problem.columns))
        return ascend_no_room(plan);
    tg_ub_layout *l = &plan->layout;
    l->blocks = plan->problem.rows < plan->problem.cores ? plan->problem.rows : plan->problem.cores;
    return TG_OK;
}

/* Whole rows, all weights of a channel, and a sum of lanes for each tap, lie in UB. */
static int accepts(const tg_tensor *probs, const tg_tensor *weight, int64_t groups)
{
    enum { LONGEST = 4096 };
    const int64_t taps = weight->shape[3] * weight->shape[3], ins = probs->shape[1] / groups;
    const int64_t outs = weight->shape[0] / groups, most = ins > outs ? ins : outs;
    const int64_t longest = taps <= MTA_FEW_TAPS ? LONGEST : LONGEST / 2;
    return probs->shape[3] <= longest && taps <= MTA_TAPS &&
           most * ((taps + 15) / 16 * 16) <= MTA_WEIGHTS;
}

static int has_room(int kernel, const tg_tensor *t, uint32_t options)
{
    ascend_plan plan;
    return choose(&plan, kernel, t, options) == TG_OK;
}

static uint32_t taps_option(const tg_tensor *weight)
{
    return weight->shape[3] * weight->shape[3] <= MTA_FEW_TAPS ? MTA_FEW : MTA_MANY;
}

/* Rows that UB has no room for are left to others. */
int ascend_multi_token_attention_forward_accepts(const tg_multi_token_attention_forward_args *args)
{
    return accepts(args->probs, args->weight, args->groups) && has_room(MASK, args->scores, 0) &&
           has_room(CONVOLVE, args->y, 0);
}

int ascend_multi_token_attention_backward_accepts(
    const tg_multi_token_attention_backward_args *args)
{
    return accepts(args->probs, args->weight, args->groups) &&
           has_room(CONVOLVE, args->dscores, 0) &&
           ((!args->dweight && !args->dbias) ||
            has_room(PARAMETERS, args->dy, taps_option(args->weight)));
}

static int is_f32(const tg_tensor *t)
{
    return t && tg_type_of(t) == TG_F32;
}

/* The channels and taps of a call; in: those of probs. */
typedef struct mta_taps {
    int64_t ins, outs, width, dilation, above, before;
} mta_taps;

static mta_taps taps_of(const tg_tensor *weight, int64_t groups, int64_t dilation, int64_t padding,
                        int64_t causal_queries)
{
    const int64_t width = weight->shape[3];
    return (mta_taps){weight->shape[1],
                      weight->shape[0] / groups,
                      width,
                      dilation,
                      causal_queries ? (width - 1) * dilation : padding,
                      padding};
}

tg_status ascend_multi_token_attention_forward(tg_ctx *ctx,
                                               const tg_multi_token_attention_forward_args *a)
{
    const mta_taps t = taps_of(a->weight, a->groups, a->dilation, a->padding, a->causal_queries);
    const int64_t taps = t.width * t.width;
    ascend_plan plan;
    ASCEND_TRY(choose(&plan, MASK, a->scores, 0));
    ASCEND_TRY(ASCEND_LAUNCH(ctx, &plan, mta_mask, .scores = a->scores, .masked = a->probs));
    if (a->sparse)
        ASCEND_TRY(ascend_sparsemax_forward(
            ctx, &(tg_sparsemax_forward_args){.x = a->probs, .y = a->probs, .dim = -1}));
    else
        ASCEND_TRY(
            ascend_softmax_forward(ctx, &(tg_softmax_forward_args){.x = a->probs, .y = a->probs}));
    ASCEND_TRY(choose(&plan, CONVOLVE, a->y, 0));
    return ASCEND_LAUNCH(
        ctx, &plan, mta_convolve, .from = a->probs, .to = a->y, .weight = a->weight,
        .bias = a->bias, .ins = t.ins, .outs = t.outs, .width = t.width, .dilation = t.dilation,
        .above = t.above, .before = t.before, .sign = 1, .groups = a->groups,
        .group_step = t.outs * t.ins * taps, .out_step = t.ins * taps, .in_step = taps,
        .weight_f32 = is_f32(a->weight), .bias_f32 = is_f32(a->bias));
}

/* A tensor as a vector of its elements. */
static tg_tensor flat(const tg_tensor *t, int64_t *shape)
{
    tg_tensor v = *t;
    *shape = tg_numel(t);
    v.ndim = 1;
    v.shape = shape;
    v.strides = NULL;
    return v;
}

static tg_status parameter_gradients(tg_ctx *ctx, const tg_multi_token_attention_backward_args *a,
                                     const mta_taps *t)
{
    const ascend_memory none = {NULL, 0};
    ascend_partial_sums dweight, dbias;
    ascend_plan plan;
    int64_t elements;
    ASCEND_TRY(choose(&plan, PARAMETERS, a->dy, taps_option(a->weight)));
    const int64_t blocks = plan.problem.rows ? plan.layout.blocks : 0;
    ASCEND_TRY(ascend_partials(ctx, a->dweight ? blocks : 0, tg_numel(a->weight), &dweight));
    ASCEND_TRY(ascend_partials(ctx, a->dbias ? blocks : 0, a->weight->shape[0], &dbias));
    ASCEND_TRY(ASCEND_LAUNCH(ctx, &plan, mta_parameters, .dy = a->dy, .probs = a->probs,
                             .dweights = a->dweight ? &dweight.memory : &none,
                             .dbiases = a->dbias ? &dbias.memory : &none,
                             .dweights_stride = dweight.stride, .dbiases_stride = dbias.stride,
                             .channels = a->weight->shape[0], .ins = t->ins, .outs = t->outs,
                             .width = t->width, .dilation = t->dilation, .above = t->above,
                             .before = t->before));
    if (a->dweight) {
        const tg_tensor vector = flat(a->dweight, &elements);
        ASCEND_TRY(ascend_sum_partials(ctx, &dweight, &vector, a->accumulate));
    }
    return a->dbias ? ascend_sum_partials(ctx, &dbias, a->dbias, a->accumulate) : TG_OK;
}

tg_status ascend_multi_token_attention_backward(tg_ctx *ctx,
                                                const tg_multi_token_attention_backward_args *a)
{
    const mta_taps t = taps_of(a->weight, a->groups, a->dilation, a->padding, a->causal_queries);
    const int64_t taps = t.width * t.width;
    ascend_plan plan;
    if (a->dweight || a->dbias)
        ASCEND_TRY(parameter_gradients(ctx, a, &t));
    ASCEND_TRY(choose(&plan, CONVOLVE, a->dscores, 0));
    ASCEND_TRY(ASCEND_LAUNCH(
        ctx, &plan, mta_convolve, .from = a->dy, .to = a->dscores, .weight = a->weight,
        .bias = NULL, .ins = t.outs, .outs = t.ins, .width = t.width, .dilation = t.dilation,
        .above = t.above, .before = t.before, .sign = -1, .groups = a->groups,
        .group_step = t.outs * t.ins * taps, .out_step = taps, .in_step = t.ins * taps,
        .weight_f32 = is_f32(a->weight), .bias_f32 = 0));
    if (a->sparse)
        return ascend_sparsemax_backward(
            ctx, &(tg_sparsemax_backward_args){
                     .dy = a->dscores, .y = a->probs, .dx = a->dscores, .dim = -1});
    return ascend_softmax_backward(
        ctx, &(tg_softmax_backward_args){.dy = a->dscores, .y = a->probs, .dx = a->dscores});
}
