/* softmax_logp of cross_entropy, on any device that has it: logp is its loss of each row with the
 * other sign. What a loss does not tell is refused: entropies, selected classes and all else. */
#include "core/parts.h"
#include "core/view.h"
#include "rows/logp.h"

static int accepts_forward(const tg_softmax_logp_forward_args *a)
{
    return a->temperature == 1 && !a->entropy && !a->selected && !a->mean_logits &&
           !a->log_sum_sq_probs;
}

static int accepts_backward(const tg_softmax_logp_backward_args *a)
{
    return a->temperature == 1 && !a->dentropy && !a->dselected;
}

/* What both directions of cross_entropy are given. */
#define LOSS_ARGS(a)                                                                            \
    .logits = (a)->logits, .target = (a)->target, .lse = (a)->lse,                              \
    .ignore_index = TG_VALUE((a)->ignore_index), .reduction = TG_NONE, .softcap = (a)->softcap, \
    .vocab_start = (a)->vocab_start, .vocab_size = (a)->vocab_size

static tg_status run_forward(tg_ctx *ctx, const tg_softmax_logp_forward_args *a, float *memory)
{
    const int64_t rows = tg_numel(a->target);
    view loss, row, logp;
    set_vector(&loss, memory, TG_F32, rows);
    set_view(&row, memory, TG_F32, 1, rows, rows);
    TG_TRY(tg_cross_entropy_forward(
        ctx, &(tg_cross_entropy_forward_args){LOSS_ARGS(a), .loss = beside(&loss, a->logits),
                                              .predicted = a->predicted}));
    return tg_sum_rows_forward(ctx, &(tg_sum_rows_forward_args){.x = beside(&row, a->logits),
                                                                .y = part(&logp, a->logp, 0, rows),
                                                                .scale = -1});
}

static tg_status forward(tg_ctx *ctx, const tg_softmax_logp_forward_args *a)
{
    const size_t bytes = (size_t)(tg_numel(a->target) + 1) * sizeof(float);
    float *memory = tg_workspace_beside(ctx, a->logits, bytes);
    if (!memory)
        return TG_ENOMEM;
    tg_reserve(ctx);
    const tg_status status = run_forward(ctx, a, memory);
    tg_reserved(ctx);
    return status != TG_OK ? status : run_forward(ctx, a, memory);
}

static tg_status backward(tg_ctx *ctx, const tg_softmax_logp_backward_args *a)
{
    return tg_cross_entropy_backward(ctx, &(tg_cross_entropy_backward_args){
                                              LOSS_ARGS(a), .dloss = a->dlogp,
                                              .dlogits = a->dlogits, .grad_scale = -a->grad_scale});
}

TG_PARTS_IMPLS(softmax_logp) = {
    TG_IMPL(softmax_logp_forward, "", 0, TG_TAKES_FLOATS | TG_TAKES_ANY_DEVICE, accepts_forward,
            forward),
    TG_IMPL(softmax_logp_backward, "", 0, TG_TAKES_FLOATS | TG_TAKES_ANY_DEVICE, accepts_backward,
            backward),
    TG_IMPLS_END};
