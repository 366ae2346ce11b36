/* preference_loss as an eager framework's user writes it: each loss from logistic functions of
 * rewards, and derivatives as reverse-mode differentiation forms them, without a thought for
 * overflow. */
#include <math.h>

#include "unfused.h"

/* One pair; for kto one sequence, which is a. */
typedef struct step_pair {
    double beta, gamma, smoothing, tau;
    double a, b, kl, sign; /* less the reference; sign: 1 where preferred, else -1 */
    double loss, da, db, margin;
} step_pair;

static double s(double x)
{
    return 1 / (1 + exp(-x));
}

/* What is a function of x, with derivative d. */
static void of_x(step_pair *t, double x, double loss, double d)
{
    t->margin = x;
    t->loss = loss;
    t->da = t->beta * d;
    t->db = -t->beta * d;
}

static void of_both(step_pair *t, double loss, double da, double db)
{
    t->margin = t->beta * (t->a - t->b) - t->gamma;
    t->loss = loss;
    t->da = da;
    t->db = db;
}

static double log_odds(double c)
{
    return c - log1p(-exp(c));
}

static void of_odds(step_pair *t)
{
    const double c = fmin(t->a, -0x1p-24), r = fmin(t->b, -0x1p-24);
    const double odds = log_odds(c) - log_odds(r), d = -t->beta * s(-odds);
    t->margin = odds;
    t->loss = isnan(t->a + t->b) ? NAN : -t->beta * log(s(odds));
    t->da = d / (1 - exp(c));
    t->db = -d / (1 - exp(r));
}

static void of_one(step_pair *t)
{
    const double u = t->sign * t->beta * (t->a - t->kl);
    t->margin = u;
    t->loss = 1 - s(u);
    t->da = -t->sign * t->beta * s(u) * s(-u);
}

static void of_discopop(step_pair *t, double x)
{
    const double m = s(x / t->tau), dm = m * (1 - m) / t->tau;
    of_x(t, x, -log(s(x)) * (1 - m) + exp(-x) * m,
         -s(-x) * (1 - m) + log(s(x)) * dm - exp(-x) * m + exp(-x) * dm);
}

static void step_loss(step_pair *t, int64_t type)
{
    const double beta = t->beta, e = t->smoothing, u = beta * t->a, v = beta * t->b;
    const double x = u - v - t->gamma;
    switch (type) {
    case TG_DPO_SIGMOID:
        of_x(t, x, -(1 - e) * log(s(x)) - e * log(s(-x)), e * s(x) - (1 - e) * s(-x));
        break;
    case TG_DPO_HINGE:
        of_x(t, x, fmax(0, 1 - x), x < 1 ? -1 : 0);
        break;
    case TG_DPO_EXO_PAIR:
        of_x(t, x, s(x) * (log(s(x)) - log(1 - e)) + s(-x) * (log(s(-x)) - log(e)),
             s(x) * s(-x) * (log(s(x)) - log(1 - e) - log(s(-x)) + log(e)));
        break;
    case TG_DPO_ROBUST:
        of_x(t, x, (e * log(s(-x)) - (1 - e) * log(s(x))) / (1 - 2 * e),
             (-(1 - e) * s(-x) - e * s(x)) / (1 - 2 * e));
        break;
    case TG_DPO_DISCOPOP:
        of_discopop(t, x);
        break;
    case TG_DPO_NCA_PAIR:
        of_both(t, -log(s(u)) - .5 * log(s(-u)) - .5 * log(s(-v)), beta * (.5 * s(u) - s(-u)),
                beta * .5 * s(v));
        break;
    case TG_DPO_BCO_PAIR:
        of_both(t, -log(s(u)) - log(s(-v)), -beta * s(-u), beta * s(v));
        break;
    case TG_DPO_SPPO_HARD:
        of_both(t, pow(t->a - .5 / beta, 2) + pow(t->b + .5 / beta, 2), 2 * (t->a - .5 / beta),
                2 * (t->b + .5 / beta));
        break;
    case TG_DPO_APO_ZERO:
        of_both(t, 1 - s(u) + s(v), -beta * s(u) * s(-u), beta * s(v) * s(-v));
        break;
    case TG_DPO_APO_DOWN:
        of_both(t, s(u) + 1 - s(x), beta * s(u) * s(-u) - beta * s(x) * s(-x), beta * s(x) * s(-x));
        break;
    case TG_ORPO:
        of_odds(t);
        break;
    default:
        of_one(t);
    }
}

static double number(const tg_tensor *t, int64_t i, double otherwise)
{
    if (!t)
        return otherwise;
    return element_of(tg_data(t), tg_type_of(t), tg_numel(t) == 1 ? 0 : i);
}

static void put(const tg_tensor *t, int64_t i, double value)
{
    if (t)
        set_element(tg_data(t), tg_type_of(t), i, value);
}

#define STEP_OF(args, i)                                                          \
    step_with((step_pair){.beta = (args)->beta,                                   \
                          .gamma = (args)->gamma,                                 \
                          .smoothing = (args)->label_smoothing,                   \
                          .tau = (args)->discopop_tau,                            \
                          .kl = number((args)->kl, i, 0),                         \
                          .sign = number((args)->preferred, i, 1) != 0 ? 1 : -1}, \
              (args)->logp, (args)->ref_logp, (args)->loss_type, i)

static step_pair step_with(step_pair t, const tg_tensor *logp, const tg_tensor *ref, int64_t type,
                           int64_t i)
{
    const int64_t n = logp->shape[1];
    t.a = number(logp, i, 0) - number(ref, i, 0);
    if (type != TG_KTO)
        t.b = number(logp, n + i, 0) - number(ref, n + i, 0);
    step_loss(&t, type);
    return t;
}

static tg_status forward(tg_ctx *ctx, const tg_preference_loss_forward_args *args)
{
    (void)ctx;
    const int64_t n = args->logp->shape[1];
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const step_pair t = STEP_OF(args, i);
        sum += t.loss;
        if (args->reduction == TG_NONE)
            put(args->loss, i, t.loss);
        put(args->rewards, i, t.beta * t.a);
        if (args->loss_type != TG_KTO)
            put(args->rewards, n + i, t.beta * t.b);
        put(args->margin, i, t.margin);
    }
    if (args->reduction != TG_NONE)
        put(args->loss, 0, sum * (args->reduction == TG_MEAN ? share((double)n) : 1));
    return TG_OK;
}

static tg_status backward(tg_ctx *ctx, const tg_preference_loss_backward_args *args)
{
    (void)ctx;
    const int64_t n = args->logp->shape[1];
    for (int64_t i = 0; i < n; i++) {
        const step_pair t = STEP_OF(args, i);
        const double d =
            number(args->dloss, i, 1) * (args->reduction == TG_MEAN ? share((double)n) : 1);
        put(args->dlogp, i, d * t.da);
        if (args->loss_type != TG_KTO)
            put(args->dlogp, n + i, d * t.db);
    }
    return TG_OK;
}

UNFUSED_IMPLS(preference_loss) = {UNFUSED_IMPL(preference_loss_forward, forward),
                                  UNFUSED_IMPL(preference_loss_backward, backward), TG_IMPLS_END};
