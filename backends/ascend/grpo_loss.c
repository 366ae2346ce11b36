/* grpo_loss.c - host of kernels/losses/grpo_loss.asc.c, between launches of
 * selective_log_softmax (tokens.c).
 *
 *   forward: log-probabilities; losses of the tokens; their total, if they are reduced
 *   backward: log-probabilities by the saved lse, and anew of those tokens where its rounding would
 *   tell, if there are any, or of few classes anew of all; their gradient; that of the logits
 *
 * With a mask a launch takes it in before all. */
#include "grpo_loss.h"
#include "cross_entropy.h"
#include "kernels/losses/grpo_loss.args.h"

ASCEND_KERNEL(grpo_policy, GRPO_POLICY);
ASCEND_KERNEL(grpo_total, GRPO_TOTAL);
ASCEND_KERNEL(grpo_saved, GRPO_SAVED);

enum { POLICY, TOTAL, SAVED };

static const char *const options[] = {"ratio_mask", NULL};

ASCEND_KERNELS(grpo_loss) = {
    [POLICY] = {.name = "grpo_loss_policy",
                ASCEND_BUFFERS(grpo_policy),
                .max_rows = 1,
                .option = options},
    [TOTAL] = {.name = "grpo_loss_total", ASCEND_BUFFERS(grpo_total), .max_rows = 1},
    [SAVED] = {.name = "grpo_loss_saved",
               ASCEND_BUFFERS(grpo_saved),
               .flat = 1,
               .max_rows = 1,
               .max_columns = 32}, /* each token is a copy: they go to all cores */
    {0},
};

#define GRPO_CALL(args)                             \
    .tokens = {.logits = (args)->logits,            \
               .target = (args)->target,            \
               .mask = (args)->mask,                \
               .lse = (args)->lse,                  \
               .temperature = (args)->temperature}, \
    GRPO_OPTIONS(args, (args)->target)

static const ascend_memory none;

static double at_least_1(double n)
{
    return n < 1 ? 1 : n;
}

/* What a token counts: how, and how much. */
static int64_t weighs(const grpo_call *c, double *weight)
{
    const double batch = (double)c->batch, tokens = batch * (double)c->columns;
    const int masked = c->tokens.mask != NULL;
    *weight = 1;
    if (c->each)
        return GRPO_AS_IT_IS;
    switch (c->type) {
    case TG_GRPO:
    case TG_SAPO:
        *weight = 1 / batch;
        return GRPO_BY_SEQUENCE;
    case TG_DR_GRPO:
        *weight = 1 / (batch * (double)(c->length ? c->length : c->columns));
        return GRPO_AS_IT_IS;
    case TG_LUSPO:
        *weight = 1 / tokens;
        return GRPO_BY_LENGTH;
    default:
        if (c->items == 0 || c->type == TG_BNPO) {
            *weight = masked ? 1 : 1 / at_least_1(tokens);
            return masked ? GRPO_BY_TOKEN : GRPO_AS_IT_IS;
        }
        *weight = 1 / at_least_1(c->items);
        return GRPO_AS_IT_IS;
    }
}

static int64_t policy_of(int64_t type)
{
    return type == TG_CISPO   ? GRPO_CISPO
           : type == TG_SAPO  ? GRPO_SAPO
           : type == TG_VESPO ? GRPO_VESPO
                              : GRPO_CLIP;
}

/* is_ratio as [B,L] or [B,1]. */
static const tg_tensor *ratio_of(const tg_tensor *t, tg_tensor *view, int64_t *shape,
                                 int64_t *strides)
{
    if (!t || t->ndim == 2)
        return t;
    *view = *t;
    shape[0] = t->shape[0];
    shape[1] = strides[0] = strides[1] = 1;
    view->ndim = 2;
    view->shape = shape;
    view->strides = strides;
    return view;
}

/* ---- the launches ---- */

tg_status ascend_grpo_room(tg_ctx *ctx, grpo_call *c, const tg_tensor *tokens)
{
    void *memory;
    ASCEND_TRY(ascend_scratch(ctx, (size_t)(c->batch * c->columns) * sizeof(float), &memory));
    c->logp = tg_tensor_of(memory, TG_F32, 2, tokens->shape);
    c->logp.device = tokens->device;
    c->tokens.logp = &c->logp;
    return TG_OK;
}

/* sums: forward, of a loss that is reduced. *blocks: which leave them. */
static tg_status policy(tg_ctx *ctx, const grpo_call *c, const ascend_memory *sums,
                        const ascend_memory *dlogp, int64_t *blocks)
{
    const tokens_call *t = &c->tokens;
    const ascend_memory selected = t->mask ? ascend_memory_of(&t->selected) : none;
    const ascend_memory logp = ascend_memory_of(&c->logp);
    const int each = c->each && !dlogp->at;
    int64_t shape[2], strides[2];
    double weight;
    tg_tensor view;
    const int64_t how = weighs(c, &weight);
    const tg_tensor *ratio = ratio_of(c->is_ratio, &view, shape, strides);
    ascend_plan plan;
    ASCEND_TRY(ascend_begin(&plan, &ascend_ub_grpo_loss[POLICY], &c->logp, c->batch, c->columns,
                            TG_F32, c->rated.at ? GRPO_RATED_APART : 0));
    ASCEND_TRY(ascend_choose(&plan));
    plan.layout.blocks = plan.layout.blocks < c->batch ? plan.layout.blocks : c->batch;
    *blocks = plan.layout.blocks;
    return ASCEND_LAUNCH(
        ctx, &plan, grpo_policy, .old_logp = c->old_logp, .ref_logp = c->ref_logp,
        .is_ratio = ratio, .dloss = c->dloss, .loss = each ? c->loss : NULL,
        .kl = each ? c->kl : NULL, .clipped = each ? c->clipped : NULL, .advantages = c->advantages,
        .logp = &logp, .logp_again = &c->again, .again_counts = &c->again_counts,
        .selected = &selected, .rated = &c->rated, .counts = &t->counts, .sums = sums,
        .dlogp = dlogp, .old_type = ascend_any(c->old_logp), .ref_type = ascend_any(c->ref_logp),
        .again_blocks = c->again_blocks, .count_blocks = t->count_blocks,
        .policy = policy_of(c->type), .weighs = how,
        .flags = (c->sequence ? GRPO_SEQUENCE : 0) | (c->corrected ? GRPO_CORRECTED : 0) |
                 (ratio && ratio->shape[1] != 1 ? GRPO_RATIO_EACH : 0) |
                 (c->dloss && c->each ? GRPO_DLOSS_EACH : 0),
        .weight = weight, .beta = c->beta, .low = c->low, .high = c->high, .delta = c->delta,
        .pos = c->pos, .neg = c->neg, .lambda_pos = c->lambda_pos, .lambda_neg = c->lambda_neg);
}

static tg_status total(tg_ctx *ctx, const grpo_call *c, const ascend_memory *sums, int64_t blocks)
{
    const double tokens = at_least_1((double)c->batch * (double)c->columns);
    ascend_plan plan;
    ASCEND_TRY(ascend_begin(&plan, &ascend_ub_grpo_loss[TOTAL], c->loss, 1, blocks > 0 ? blocks : 1,
                            TG_F32, 0));
    if (!ascend_fits(&plan, 1, plan.problem.columns)) /* some bytes a core */
        return TG_ENOMEM;
    return ASCEND_LAUNCH(ctx, &plan, grpo_total, .sums = sums, .counts = &c->tokens.counts,
                         .loss = c->loss, .kl = c->kl, .clipped = c->clipped, .blocks = blocks,
                         .count_blocks = c->tokens.count_blocks,
                         .mean = c->tokens.mask ? 1 : 1 / tokens);
}

tg_status ascend_grpo_losses(tg_ctx *ctx, const grpo_call *c)
{
    ascend_memory sums = none;
    int64_t blocks;
    if (!c->each) {
        sums.bytes = (size_t)(at_least_1((double)c->batch)) * GRPO_SUMS * sizeof(float);
        ASCEND_TRY(ascend_scratch(ctx, sums.bytes, (void **)&sums.at));
    }
    ASCEND_TRY(policy(ctx, c, &sums, &none, &blocks));
    return c->each ? TG_OK : total(ctx, c, &sums, blocks);
}

tg_status ascend_grpo_gradient(tg_ctx *ctx, const grpo_call *c)
{
    const ascend_memory dlogp = ascend_memory_of(&c->logp);
    int64_t blocks;
    return policy(ctx, c, &none, &dlogp, &blocks);
}

/* Up to this many classes are read as soon as the target's logit alone would be. */
enum { FEW_CLASSES = 64 };

/* logp by the saved lse, and anew where that is not to be trusted; or of few classes anew. */
static tg_status log_probabilities(tg_ctx *ctx, grpo_call *c)
{
    const tokens_call *t = &c->tokens;
    const int64_t tokens = c->batch * c->columns;
    const ascend_memory logp = ascend_memory_of(&c->logp);
    ascend_plan plan;
    char *memory;
    tokens_call anew = *t;
    anew.lse = NULL;
    anew.dlogits = NULL;
    if (t->logits->shape[2] <= FEW_CLASSES)
        return ascend_tokens(ctx, &anew);
    ASCEND_TRY(ascend_begin(&plan, &ascend_ub_grpo_loss[SAVED], t->target, c->batch, c->columns,
                            tg_type_of(t->logits), 0));
    ASCEND_TRY(ascend_choose(&plan));
    const size_t counts = (size_t)(plan.problem.cores * TERMS_PARTIAL) * sizeof(float);
    const size_t targets = (size_t)tokens * sizeof(int64_t);
    ASCEND_TRY(
        ascend_scratch(ctx, counts + targets + (size_t)tokens * sizeof(float), (void **)&memory));
    const ascend_memory again = {memory + counts, targets};
    c->again_blocks = plan.layout.blocks;
    c->again_counts = (ascend_memory){memory, counts};
    c->again = (ascend_memory){memory + counts + targets, (size_t)tokens * sizeof(float)};
    ASCEND_TRY(ASCEND_LAUNCH(ctx, &plan, grpo_saved, .logits = t->logits, .target = &t->selected,
                             .lse = t->lse, .logp = &logp, .again = &again,
                             .counts = &c->again_counts, .logits_group = tg_stride(t->logits, 0),
                             .classes = t->logits->shape[2], .scale = 1 / t->temperature,
                             .roundings = cross_entropy_roundings(t->logits->shape[2])));
    tg_tensor logp_again = c->logp;
    logp_again.data = (void *)c->again.at;
    anew.logp = &logp_again;
    anew.selected = tg_tensor_of((void *)again.at, TG_I64, 2, t->target->shape);
    anew.selected.device = t->target->device;
    anew.counts = c->again_counts;
    anew.count_blocks = c->again_blocks;
    anew.if_any = 1;
    return ascend_tokens(ctx, &anew);
}

/* ---- the operators ---- */

ASCEND_OPERATOR_IF(grpo_loss_forward, TG_TAKES_FLOATS);
ASCEND_OPERATOR_IF(grpo_loss_backward, TG_TAKES_FLOATS);

tg_status ascend_grpo_loss_forward(tg_ctx *ctx, const tg_grpo_loss_forward_args *args)
{
    grpo_call c = {GRPO_CALL(args), .loss = args->loss, .kl = args->kl, .clipped = args->clipped};
    ASCEND_TRY(ascend_grpo_room(ctx, &c, args->target));
    ASCEND_TRY(ascend_select_tokens(ctx, &c.tokens));
    ASCEND_TRY(ascend_tokens(ctx, &c.tokens));
    return ascend_grpo_losses(ctx, &c);
}

tg_status ascend_grpo_loss_backward(tg_ctx *ctx, const tg_grpo_loss_backward_args *args)
{
    grpo_call c = {GRPO_CALL(args), .dloss = args->dloss};
    ASCEND_TRY(ascend_grpo_room(ctx, &c, args->target));
    ASCEND_TRY(ascend_select_tokens(ctx, &c.tokens));
    ASCEND_TRY(log_probabilities(ctx, &c));
    ASCEND_TRY(ascend_grpo_gradient(ctx, &c));
    c.tokens.dlogits = args->dlogits;
    return ascend_tokens(ctx, &c.tokens);
}

int ascend_grpo_loss_forward_accepts(const tg_grpo_loss_forward_args *args)
{
    return ascend_takes_temperature(args->temperature);
}

int ascend_grpo_loss_backward_accepts(const tg_grpo_loss_backward_args *args)
{
    return ascend_takes_temperature(args->temperature);
}
