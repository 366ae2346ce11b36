/* tokens.c - host of kernels/losses/tokens.asc.c, and of selective_log_softmax: rows of
 * cross_entropy whose loss is negated. */
#include "tokens.h"
#include "cross_entropy.h"
#include "kernels/losses/tokens.args.h"

#include <float.h>

ASCEND_KERNEL(select_tokens, SELECT_TOKENS);
ASCEND_KERNEL(zero_rows, ZERO_ROWS);

enum { SELECT, ZERO };

ASCEND_KERNELS(tokens) = {
    [SELECT] = {.name = "select_tokens", ASCEND_BUFFERS(select_tokens), .flat = 1, .max_rows = 1},
    [ZERO] = {.name = "zero_rows", ASCEND_BUFFERS(zero_rows), .flat = 1, .max_rows = 1},
    {0},
};

/* ---- parts of tensors ---- */

typedef struct part {
    tg_tensor t;
    int64_t shape[3], strides[3];
} part;

/* Of [B,L] or [B,L,V]: `count` sequences from `first` on, each with `positions` from `at`
 * on. NULL for NULL. */
static const tg_tensor *part_of(part *p, const tg_tensor *t, int64_t first, int64_t count,
                                int64_t at, int64_t positions)
{
    if (!t)
        return NULL;
    p->t = *t;
    p->t.shape = p->shape;
    p->t.strides = p->strides;
    for (int i = 0; i < t->ndim; i++) {
        p->shape[i] = i == 0 ? count : i == 1 ? positions : t->shape[i];
        p->strides[i] = tg_stride(t, i);
    }
    p->t.byte_offset +=
        (uint64_t)(first * p->strides[0] + at * p->strides[1]) * tg_type_size(tg_type_of(t));
    return &p->t;
}

/* ---- the launches ---- */

tg_status ascend_select_tokens(tg_ctx *ctx, tokens_call *c)
{
    ascend_plan plan;
    void *memory;
    const tg_tensor *all = c->target ? c->target : c->mask;
    c->count_blocks = 0;
    if (c->target)
        c->selected = *c->target;
    if (!c->mask)
        return TG_OK;
    c->selected = *all;
    const int64_t tokens = tg_numel(all);
    ASCEND_TRY(ascend_begin(&plan, &ascend_ub_tokens[SELECT], all, all->shape[0], all->shape[1],
                            TG_F32, 0));
    ASCEND_TRY(ascend_choose(&plan));
    const size_t counts = (size_t)(plan.problem.cores * TERMS_PARTIAL) * sizeof(float);
    ASCEND_TRY(ascend_scratch(ctx, counts + (size_t)tokens * sizeof(int64_t), &memory));
    c->counts = (ascend_memory){memory, counts};
    c->count_blocks = plan.layout.blocks;
    c->selected.data = (char *)memory + counts;
    c->selected.byte_offset = 0;
    c->selected.strides = NULL;
    const ascend_memory selected = ascend_memory_of(&c->selected);
    return ASCEND_LAUNCH(ctx, &plan, select_tokens, .target = c->target, .mask = c->mask,
                         .selected = &selected, .counts = &c->counts);
}

/* Positions without a token have no gradient. */
static tg_status zero_rest(tg_ctx *ctx, const tokens_call *c)
{
    const int64_t length = c->target->shape[1], rest = c->dlogits->shape[1] - length;
    part p;
    ascend_plan plan;
    if (rest == 0)
        return TG_OK;
    const tg_tensor *x = part_of(&p, c->dlogits, 0, c->dlogits->shape[0], length, rest);
    ASCEND_TRY(ascend_begin_rows(&plan, &ascend_ub_tokens[ZERO], x, 0));
    ASCEND_TRY(ascend_choose(&plan));
    return ASCEND_LAUNCH(ctx, &plan, zero_rows, .x = x);
}

/* `count` sequences from `first` on, whose numbers follow each other without gaps. */
static tg_status run(tg_ctx *ctx, const tokens_call *c, int64_t first, int64_t count)
{
    const int64_t length = c->target->shape[1];
    const double scale = 1 / c->temperature;
    part parts[5];
    const tg_tensor *logp = part_of(&parts[0], c->logp, first, count, 0, length);
    ce_call ce = {.logits = part_of(&parts[1], c->logits, first, count, 0, length),
                  .target = part_of(&parts[2], &c->selected, first, count, 0, length),
                  .lse = part_of(&parts[3], c->lse, first, count, 0, length),
                  .rows = count * length,
                  .classes = c->logits->shape[2],
                  .ignore_index = TOKENS_LEFT_OUT,
                  .flags = CE_EACH,
                  .grad_scale = 1,
                  .scale = scale > FLT_MIN ? scale : FLT_MIN, /* -inf times 0 is NaN */
                  .unit = -1};
    if (!c->dlogits) {
        ce.loss = logp;
        if (c->if_any) {
            ce.flags |= CE_COUNTED | CE_IF_ANY;
            ce.counts = c->counts;
            ce.count_blocks = c->count_blocks;
        }
        return ascend_cross_entropy_rows(ctx, &ce);
    }
    ce.flags |= CE_TRIED;
    ce.dlogits = part_of(&parts[4], c->dlogits, first, count, 0, length);
    ce.dloss = logp;
    ce.grad_scale = scale;
    return ascend_cross_entropy_rows(ctx, &ce);
}

tg_status ascend_tokens(tg_ctx *ctx, const tokens_call *c)
{
    const int64_t batch = c->target->shape[0];
    if (c->dlogits)
        ASCEND_TRY(zero_rest(ctx, c));
    if (tg_is_compact(&c->selected) && tg_is_compact(c->logp) && (!c->lse || tg_is_compact(c->lse)))
        return run(ctx, c, 0, batch);
    for (int64_t b = 0; b < batch; b++)
        ASCEND_TRY(run(ctx, c, b, 1));
    return TG_OK;
}

int ascend_takes_temperature(double temperature)
{
    return temperature >= 0x1p-64;
}

/* ---- selective_log_softmax ---- */

#define TOKENS_CALL(args)                                                                         \
    .logits = (args)->logits, .target = (args)->target, .mask = (args)->mask, .lse = (args)->lse, \
    .temperature = (args)->temperature

ASCEND_OPERATOR_IF(selective_log_softmax_forward, TG_TAKES_FLOATS);
ASCEND_OPERATOR_IF(selective_log_softmax_backward, TG_TAKES_FLOATS);

tg_status ascend_selective_log_softmax_forward(tg_ctx *ctx,
                                               const tg_selective_log_softmax_forward_args *args)
{
    tokens_call c = {TOKENS_CALL(args), .logp = args->logp};
    ASCEND_TRY(ascend_select_tokens(ctx, &c));
    return ascend_tokens(ctx, &c);
}

tg_status ascend_selective_log_softmax_backward(tg_ctx *ctx,
                                                const tg_selective_log_softmax_backward_args *args)
{
    tokens_call c = {TOKENS_CALL(args), .logp = args->dlogp, .dlogits = args->dlogits};
    ASCEND_TRY(ascend_select_tokens(ctx, &c));
    return ascend_tokens(ctx, &c);
}

int ascend_selective_log_softmax_forward_accepts(const tg_selective_log_softmax_forward_args *args)
{
    return ascend_takes_temperature(args->temperature);
}

int ascend_selective_log_softmax_backward_accepts(
    const tg_selective_log_softmax_backward_args *args)
{
    return ascend_takes_temperature(args->temperature);
}
