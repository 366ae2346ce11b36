/* preference_loss: what each loss type makes of one pair, worked out by hand; rewards of hundreds;
 * what is refused. */
#include <math.h>

#include "../common/test.h"

enum { SINGLE = 1, PAIR = 2 };

static const int64_t one[] = {1}, pair[] = {PAIR, 1}, single[] = {SINGLE, 1};

static double logistic(double x)
{
    return 1 / (1 + exp(-x));
}

typedef struct result {
    tg_status status;
    float loss, margin, rewards[2], dlogp[2];
} result;

/* Of a chosen and a rejected sequence, or of one that is preferred. */
static result run(tg_ctx *ctx, tg_preference_loss_forward_args a, float chosen, float rejected)
{
    const int64_t *shape = a.loss_type == TG_KTO ? single : pair;
    float logp[] = {chosen, rejected};
    int64_t preferred = 1;
    result r = {0};
    tg_tensor x = tg_tensor_of(logp, TG_F32, 2, shape),
              loss = tg_tensor_of(&r.loss, TG_F32, 1, one);
    tg_tensor margin = tg_tensor_of(&r.margin, TG_F32, 1, one);
    tg_tensor rewards = tg_tensor_of(r.rewards, TG_F32, 2, shape);
    tg_tensor dlogp = tg_tensor_of(r.dlogp, TG_F32, 2, shape);
    tg_tensor label = tg_tensor_of(&preferred, TG_I64, 1, one);
    a.logp = &x;
    a.preferred = a.loss_type == TG_KTO ? &label : NULL;
    a.loss = &loss;
    a.margin = &margin;
    a.rewards = &rewards;
    r.status = tg_preference_loss_forward(ctx, &a);
    if (r.status == TG_OK)
        r.status = tg_preference_loss_backward(
            ctx, &(tg_preference_loss_backward_args){.logp = &x,
                                                     .preferred = a.preferred,
                                                     .dlogp = &dlogp,
                                                     .loss_type = a.loss_type,
                                                     .beta = a.beta,
                                                     .gamma = a.gamma,
                                                     .label_smoothing = a.label_smoothing,
                                                     .discopop_tau = a.discopop_tau});
    return r;
}

static int near(double x, double expected)
{
    return fabs(x - expected) <= 1e-6 * (1 + fabs(expected));
}

/* beta 1/2, a = -1, b = -3: rewards -1/2 and -3/2, x = 1. */
static void check_values(tg_ctx *ctx)
{
    const double s1 = logistic(1), u = logistic(-0.5), v = logistic(-1.5), e = 0.2;
    const struct {
        int64_t type;
        double loss, da, db;
    } expected[] = {
        {TG_DPO_SIGMOID, -(1 - e) * log(s1) - e * log(1 - s1), (s1 - 1 + e) / 2, (1 - e - s1) / 2},
        {TG_DPO_HINGE, 0, 0, 0},
        {TG_DPO_EXO_PAIR, s1 * log(s1 / (1 - e)) + (1 - s1) * log((1 - s1) / e),
         s1 * (1 - s1) * (1 + log(e / (1 - e))) / 2, -s1 * (1 - s1) * (1 + log(e / (1 - e))) / 2},
        {TG_DPO_NCA_PAIR, -log(u) - log(1 - u) / 2 - log(1 - v) / 2, (u / 2 - (1 - u)) / 2, v / 4},
        {TG_DPO_ROBUST, (-(1 - e) * log(s1) + e * log(1 - s1)) / 0.6,
         -((1 - e) * (1 - s1) + e * s1) / 1.2, ((1 - e) * (1 - s1) + e * s1) / 1.2},
        {TG_DPO_BCO_PAIR, -log(u) - log(1 - v), -(1 - u) / 2, v / 2},
        {TG_DPO_SPPO_HARD, 4 + 4, -4, -4},
        {TG_DPO_APO_ZERO, 1 - u + v, -u * (1 - u) / 2, v * (1 - v) / 2},
        {TG_DPO_APO_DOWN, u + 1 - s1, (u * (1 - u) - s1 * (1 - s1)) / 2, s1 * (1 - s1) / 2},
        {TG_DPO_DISCOPOP, exp(-1), -exp(-1) / 2, exp(-1) / 2}, /* s(20) is nearly 1 */
        {TG_KTO, 1 - u, -u * (1 - u) / 2, 0}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const tg_preference_loss_forward_args a = {
            .loss_type = expected[i].type, .beta = 0.5, .label_smoothing = e};
        const result r = run(ctx, a, -1, -3);
        EXPECT(r.status == TG_OK && near(r.loss, expected[i].loss) &&
                   near(r.dlogp[0], expected[i].da) && near(r.dlogp[1], expected[i].db),
               "type %d: %s, loss %g of %g, gradient %g %g of %g %g", (int)expected[i].type,
               r.status ? tg_last_error() : "ran", r.loss, expected[i].loss, r.dlogp[0], r.dlogp[1],
               expected[i].da, expected[i].db);
        EXPECT(near(r.rewards[0], -0.5) && near(r.margin, expected[i].type == TG_KTO ? -0.5 : 1),
               "type %d: reward %g, margin %g", (int)expected[i].type, r.rewards[0], r.margin);
    }
}

/* Odds of 1/3 and 1 to 1: -beta ln s(ln 3). */
static void check_odds(tg_ctx *ctx)
{
    const tg_preference_loss_forward_args a = {.loss_type = TG_ORPO, .beta = 0.5};
    result r = run(ctx, a, (float)log(0.75), (float)log(0.5));
    EXPECT(r.status == TG_OK && near(r.margin, log(3)) && near(r.loss, -0.5 * log(0.75)) &&
               near(r.dlogp[0], -0.125 / 0.25) && near(r.dlogp[1], 0.125 / 0.5),
           "orpo: margin %g, loss %g, gradient %g %g", r.margin, r.loss, r.dlogp[0], r.dlogp[1]);
    r = run(ctx, a, 0, 0);
    EXPECT(r.status == TG_OK && r.margin == 0 && isfinite(r.dlogp[0]) && isfinite(r.dlogp[1]),
           "orpo of certain sequences: margin %g, gradient %g %g", r.margin, r.dlogp[0],
           r.dlogp[1]);
}

/* Rewards 200 apart, in either direction: all is finite. */
static void check_extremes(tg_ctx *ctx)
{
    for (int64_t type = TG_DPO_SIGMOID; type <= TG_KTO; type++)
        for (int sign = -1; sign <= 1; sign += 2) {
            const tg_preference_loss_forward_args a = {
                .loss_type = type, .beta = 1, .label_smoothing = type <= TG_DPO_ROBUST ? 0.1 : 0};
            const float far = type == TG_ORPO ? -201 : 0;
            const result r = run(ctx, a, (float)sign * 100 + (far != 0 ? -101 : 0),
                                 (float)-sign * 100 + (far != 0 ? -101 : 0));
            EXPECT(r.status == TG_OK && isfinite(r.loss) && isfinite(r.dlogp[0]) &&
                       isfinite(r.dlogp[1]),
                   "type %d, %+d: loss %g, gradient %g %g", (int)type, sign, r.loss, r.dlogp[0],
                   r.dlogp[1]);
        }
}

static void refuse(tg_ctx *ctx, const tg_preference_loss_forward_args *a, const char *expected)
{
    const tg_status status = tg_preference_loss_forward(ctx, a);
    EXPECT(status == TG_EINVAL && strstr(tg_last_error(), expected), "%s: \"%s\", expected \"%s\"",
           tg_status_name(status), tg_last_error(), expected);
}

static void check_refusals(tg_ctx *ctx)
{
    float memory[2] = {-1, -2}, result = 0;
    int64_t label = 1;
    const tg_tensor x = tg_tensor_of(memory, TG_F32, 2, pair);
    const tg_tensor alone = tg_tensor_of(memory, TG_F32, 2, single);
    const tg_tensor preferred = tg_tensor_of(&label, TG_I64, 1, one);
    tg_tensor loss = tg_tensor_of(&result, TG_F32, 1, one);
#define CALL(...) &(tg_preference_loss_forward_args){.loss = &loss, __VA_ARGS__}
    refuse(ctx, CALL(.logp = &alone), "expected 2 by N, the chosen ones and the rejected ones");
    refuse(ctx, CALL(.logp = &x, .loss_type = TG_KTO, .preferred = &preferred),
           "expected 1 by N, since loss_type is kto");
    refuse(ctx, CALL(.logp = &alone, .loss_type = TG_KTO), "preferred is NULL");
    refuse(ctx, CALL(.logp = &x, .preferred = &preferred), "preferred is given, expected NULL");
    refuse(ctx, CALL(.logp = &x, .ref_logp = &x, .loss_type = TG_ORPO), "ref_logp is given");
    refuse(ctx, CALL(.logp = &x, .loss_type = TG_DPO_EXO_PAIR), "label_smoothing is 0");
    refuse(ctx, CALL(.logp = &x, .loss_type = TG_DPO_ROBUST, .label_smoothing = 0.5),
           "label_smoothing is 0.5");
    refuse(ctx, CALL(.logp = &x, .loss_type = TG_DPO_SPPO_HARD, .beta = -1), "beta is -1");
    refuse(ctx, CALL(.logp = &x, .discopop_tau = -1), "discopop_tau is -1");
}

int main(void)
{
    tg_ctx *ctx = new_context();
    check_values(ctx);
    check_odds(ctx);
    check_extremes(ctx);
    check_refusals(ctx);
    tg_ctx_destroy(ctx);
    return report();
}
