/* grpo_loss: what each loss type makes of the same tokens, worked out by hand; what is
 * refused, with nothing written; tokens that mask leaves out, whose targets may be anything;
 * logits that are a view. */
#include <math.h>

#include "../common/test.h"

enum { B = 2, L = 3, V = 2 };

static float logits[B * (L + 1) * V], dlogits[B * (L + 1) * V], lse[B * L], loss;
static float old_logp[B * L], advantages[B] = {1, 2};
static int64_t target[B * L], mask[B * L] = {1, 1, 1, 0, 5, 0};
static int64_t positions[] = {B, L + 1, V}, tokens[] = {B, L}, sequences[] = {B}, one[] = {1};

/* All of a call; each test changes what it needs. */
typedef struct call {
    tg_tensor logits, target, advantages, old_logp, mask, lse, loss, dlogits;
    tg_grpo_loss_forward_args args;
} call;

static void set_call(call *c)
{
    c->logits = tg_tensor_of(logits, TG_F32, 3, positions);
    c->dlogits = tg_tensor_of(dlogits, TG_F32, 3, positions);
    c->target = tg_tensor_of(target, TG_I64, 2, tokens);
    c->mask = tg_tensor_of(mask, TG_I64, 2, tokens);
    c->advantages = tg_tensor_of(advantages, TG_F32, 1, sequences);
    c->old_logp = tg_tensor_of(old_logp, TG_F32, 2, tokens);
    c->lse = tg_tensor_of(lse, TG_F32, 2, tokens);
    c->loss = tg_tensor_of(&loss, TG_F32, 1, one);
    c->args = (tg_grpo_loss_forward_args){.logits = &c->logits,
                                          .target = &c->target,
                                          .advantages = &c->advantages,
                                          .old_logp = &c->old_logp,
                                          .mask = &c->mask,
                                          .loss = &c->loss,
                                          .lse = &c->lse,
                                          .temperature = 1};
}

static tg_status backward(tg_ctx *ctx, const call *c)
{
    return tg_grpo_loss_backward(ctx,
                                 &(tg_grpo_loss_backward_args){.logits = c->args.logits,
                                                               .target = c->args.target,
                                                               .advantages = c->args.advantages,
                                                               .old_logp = c->args.old_logp,
                                                               .mask = c->args.mask,
                                                               .lse = &c->lse,
                                                               .dlogits = (tg_tensor *)&c->dlogits,
                                                               .loss_type = c->args.loss_type,
                                                               .temperature = c->args.temperature});
}

/* Both classes are equally likely and the policy is the old one: rho = 1, and a token's loss is -A,
 * or -A log 0.5 where logp is a factor; phi = 1. Sequences of 3 and 1 tokens have A = 1 and 2. */
static void by_hand(tg_ctx *ctx)
{
    const double l = -log(0.5);
    const struct {
        int64_t type, length;
        double items, expected;
    } tests[] = {
        {TG_GRPO, 0, 0, -(3.0 / 3 + 2.0 / 1) / 2},
        {TG_DAPO, 0, 0, -(3.0 + 2.0) / 4},
        {TG_DAPO, 0, 10, -(3.0 + 2.0) / 10},
        {TG_DAPO, 0, 0.5, -(3.0 + 2.0)},
        {TG_BNPO, 0, 10, -(3.0 + 2.0) / 4},
        {TG_DR_GRPO, 0, 0, -(3.0 + 2.0) / (2 * 3)},
        {TG_DR_GRPO, 7, 0, -(3.0 + 2.0) / (2 * 7)},
        {TG_LUSPO, 0, 0, -(3 * 3.0 + 1 * 2.0) / (2 * 3)},
        {TG_CISPO, 0, 0, 0.4 * l * (3.0 + 2.0) / 4},
        {TG_SAPO, 0, 0, -(3.0 / 3 + 2.0 / 1) / 2 * 0.5 * 4 / 1},
        {TG_VESPO, 0, 0, l * (3.0 + 2.0) / 4},
    };
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        call c;
        set_call(&c);
        c.args.loss_type = tests[i].type;
        c.args.max_completion_length = tests[i].length;
        c.args.num_items_in_batch = tests[i].items;
        EXPECT(tg_grpo_loss_forward(ctx, &c.args) == TG_OK, "%s", tg_last_error());
        EXPECT(fabs(loss - tests[i].expected) < 1e-6, "type %d: %g, expected %g",
               (int)tests[i].type, (double)loss, tests[i].expected);
    }
}

/* Logits so far apart that f32 has no logarithm of the target's probability: the reference's policy
 * is infinitely far away. */
static void no_probability(tg_ctx *ctx)
{
    static float ref_logp[B * L];
    const tg_tensor ref = tg_tensor_of(ref_logp, TG_F32, 2, tokens);
    call c;
    set_call(&c);
    logits[0] = -3e38f;
    logits[1] = 3e38f;
    c.args.ref_logp = &ref;
    c.args.beta = 0.1;
    EXPECT(tg_grpo_loss_forward(ctx, &c.args) == TG_OK, "%s", tg_last_error());
    EXPECT(isinf(loss) && loss > 0, "%g, expected infinity", (double)loss);
    logits[0] = logits[1] = 0;
}

/* Luspo's weight of a token is n / (B L), whatever the other sequences are like. */
static void luspo_gradient(tg_ctx *ctx)
{
    call c;
    set_call(&c);
    c.args.loss_type = TG_LUSPO;
    EXPECT(tg_grpo_loss_forward(ctx, &c.args) == TG_OK, "%s", tg_last_error());
    EXPECT(backward(ctx, &c) == TG_OK, "%s", tg_last_error());
    for (int b = 0; b < B; b++)
        for (int l = 0; l <= L; l++) {
            const int kept = l < L && mask[b * L + l];
            const double weight = (b ? 1.0 : 3.0) / (B * L);
            const double expected = kept ? -advantages[b] * weight * 0.5 : 0;
            const float *d = dlogits + (b * (L + 1) + l) * V;
            EXPECT(fabs(d[0] - expected) < 1e-6 && fabs(d[1] + expected) < 1e-6,
                   "token %d,%d: %g %g, expected %g", b, l, (double)d[0], (double)d[1], expected);
        }
}

static void refused(tg_ctx *ctx, call *c, const char *message)
{
    char text[200];
    loss = lse[0] = dlogits[0] = 7;
    EXPECT(tg_grpo_loss_forward(ctx, &c->args) == TG_EINVAL, "not refused: %s", message);
    snprintf(text, sizeof text, "grpo_loss_forward: %s", message);
    EXPECT(strcmp(tg_last_error(), text) == 0, "%s", tg_last_error());
    EXPECT(loss == 7 && lse[0] == 7 && dlogits[0] == 7, "something is written: %s", message);
}

static void bad_numbers(tg_ctx *ctx)
{
    call c;
    set_call(&c);
    c.args.delta = 2;
    c.args.loss_type = TG_SAPO;
    refused(ctx, &c, "delta is 2, expected 0 with loss_type 6: only TG_GRPO to TG_LUSPO have it");
    set_call(&c);
    c.args.importance_sampling_level = TG_SEQUENCE_LEVEL;
    c.args.loss_type = TG_CISPO;
    refused(ctx, &c,
            "importance_sampling_level is TG_SEQUENCE_LEVEL (1), expected TG_TOKEN_LEVEL (0) with "
            "loss_type 5: only TG_GRPO to TG_LUSPO have the other");
    set_call(&c);
    c.args.beta = 0.5;
    refused(ctx, &c, "ref_logp is NULL, expected a tensor, since beta is 0.5");
    set_call(&c);
    c.args.reduction = TG_SUM;
    refused(ctx, &c, "reduction is 1, expected 0 (mean) or 2 (none)");
    const double temperatures[] = {0, -1, NAN, INFINITY};
    for (int i = 0; i < 4; i++) {
        set_call(&c);
        c.args.temperature = temperatures[i];
        EXPECT(tg_grpo_loss_forward(ctx, &c.args) == TG_EINVAL, "temperature %g", temperatures[i]);
        EXPECT(strstr(tg_last_error(), "temperature is"), "%s", tg_last_error());
        EXPECT(backward(ctx, &c) == TG_EINVAL, "temperature %g", temperatures[i]);
    }
}

/* A target out of range is an error where its token counts, and of no interest elsewhere. */
static void bad_targets(tg_ctx *ctx)
{
    call c;
    set_call(&c);
    target[3] = -100;
    EXPECT(tg_grpo_loss_forward(ctx, &c.args) == TG_OK, "%s", tg_last_error());
    EXPECT(backward(ctx, &c) == TG_OK, "%s", tg_last_error());
    target[4] = V;
    refused(ctx, &c, "target[1,1] is 2, out of bounds: expected in [0, 2)");
    EXPECT(backward(ctx, &c) == TG_EINVAL && dlogits[0] == 7, "%s", tg_last_error());
    target[3] = target[4] = 0;
}

/* logits[:, :L] as a view gives the same as logits with one position more. */
static void view(tg_ctx *ctx)
{
    call c;
    set_call(&c);
    for (int i = 0; i < B * (L + 1) * V; i++)
        logits[i] = (float)(i % 5) - 2;
    EXPECT(tg_grpo_loss_forward(ctx, &c.args) == TG_OK, "%s", tg_last_error());
    const float expected = loss;
    int64_t shape[] = {B, L, V}, strides[] = {(L + 1) * V, V, 1};
    c.logits.shape = shape;
    c.logits.strides = strides;
    EXPECT(tg_grpo_loss_forward(ctx, &c.args) == TG_OK, "%s", tg_last_error());
    EXPECT(loss == expected, "%g, expected %g", (double)loss, (double)expected);
}

/* A temperature whose logits f32 cannot hold is left to an implementation that can. */
static void tiny_temperature(tg_ctx *ctx)
{
    call c;
    set_call(&c);
    float logp[B * L];
    tg_tensor out = tg_tensor_of(logp, TG_F32, 2, tokens);
    for (int i = 0; i < B * (L + 1) * V; i++)
        logits[i] = i % V ? 20 : 10;
    const tg_selective_log_softmax_forward_args args = {
        .logits = &c.logits, .target = &c.target, .logp = &out, .temperature = 1e-37};
    EXPECT(tg_selective_log_softmax_forward(ctx, &args) == TG_OK, "%s", tg_last_error());
    EXPECT(fabs(logp[0] / -1e38 - 1) < 1e-6, "logp is %g", (double)logp[0]);
}

int main(void)
{
    tg_ctx *ctx = new_context();
    for (int i = 0; i < B * L; i++)
        old_logp[i] = logf(0.5f);
    by_hand(ctx);
    no_probability(ctx);
    luspo_gradient(ctx);
    bad_numbers(ctx);
    bad_targets(ctx);
    view(ctx);
    tiny_temperature(ctx);
    tg_ctx_destroy(ctx);
    return report();
}
