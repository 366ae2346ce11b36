/* softmax_logp.c - host of kernels/losses/softmax_logp.asc.c. */
#include "cross_entropy.h"
#include "kernels/losses/softmax_logp.args.h"

ASCEND_KERNEL(softmax_logp_forward, SOFTMAX_LOGP_FORWARD);
ASCEND_KERNEL(softmax_logp_backward, SOFTMAX_LOGP_BACKWARD);

enum { FORWARD, BACKWARD };

static const char *const options[] = {"argmax", NULL};

ASCEND_KERNELS(softmax_logp) = {
    [FORWARD] = {.name = "softmax_logp_forward.ring",
                 ASCEND_BUFFERS(softmax_logp_forward),
                 .max_rows = 1,
                 .option = options},
    [BACKWARD] = {.name = "softmax_logp_backward.ring",
                  ASCEND_BUFFERS(softmax_logp_backward),
                  .max_rows = 1},
    {0},
};

/* Rows of logits, of which a plan has one column at least. */
static tg_status begin(ascend_plan *plan, int kernel, const tg_tensor *logits, uint32_t options_of)
{
    const tg_rows rows = tg_rows_of(logits);
    return ascend_begin(plan, &ascend_ub_softmax_logp[kernel], logits, rows.rows,
                        rows.n ? rows.n : 1, rows.type, options_of);
}

static int64_t names(const tg_tensor *ids)
{
    return ids ? tg_numel(ids) : 0;
}

#define LOGP_GIVEN_BY(a, ids_, nids_, share_)                                                    \
    .logits = (a)->logits, .target = (a)->target, .ids = (ids_),                                 \
    .columns = tg_rows_of((a)->logits).n, .nids = (nids_), .share = (share_),                    \
    .ignore_index = (a)->ignore_index, .start = (a)->vocab_start, .slice = (a)->vocab_size != 0, \
    .softcap = (a)->softcap, .temperature = (a)->temperature

ASCEND_OPERATOR(softmax_logp_forward, TG_TAKES_FLOATS);
ASCEND_OPERATOR(softmax_logp_backward, TG_TAKES_FLOATS);

tg_status ascend_softmax_logp_forward(tg_ctx *ctx, const tg_softmax_logp_forward_args *args)
{
    const tg_tensor *ids = args->selected ? args->selected_ids : NULL;
    ascend_plan plan;
    ASCEND_TRY(begin(&plan, FORWARD, args->logits, args->predicted ? LOGP_BEST : 0));
    ASCEND_TRY(ascend_choose(&plan));
    const int64_t share = ascend_share_rows(&plan);
    return ASCEND_LAUNCH(ctx, &plan, softmax_logp_forward,
                         LOGP_GIVEN_BY(args, ids, names(ids), share), .logp = args->logp,
                         .lse = args->lse, .entropy = args->entropy, .selected = args->selected,
                         .mean_logits = args->mean_logits,
                         .log_sum_sq_probs = args->log_sum_sq_probs, .predicted = args->predicted);
}

tg_status ascend_softmax_logp_backward(tg_ctx *ctx, const tg_softmax_logp_backward_args *args)
{
    const tg_tensor *ids = args->dselected ? args->selected_ids : NULL;
    ascend_plan plan;
    int64_t again;
    ASCEND_TRY(begin(&plan, BACKWARD, args->logits, 0));
    ASCEND_TRY(ascend_choose_ring(&plan, &again));
    const int64_t share = ascend_share_rows(&plan);
    return ASCEND_LAUNCH(
        ctx, &plan, softmax_logp_backward, LOGP_GIVEN_BY(args, ids, names(ids), share),
        .dlogits = args->dlogits, .lse = args->lse, .entropy = args->entropy, .dlogp = args->dlogp,
        .dentropy = args->dentropy, .dselected = args->dselected, .grad_scale = args->grad_scale,
        .reads = again && !args->vocab_size, .out = cross_entropy_out(args->dlogits, args->logits));
}
