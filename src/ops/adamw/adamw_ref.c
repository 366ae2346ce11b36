/* adamw, plain and in double: the definition. */
#include "adamw.h"

static double get(const tg_tensor *t, int64_t i)
{
    return tg_get(tg_data(t), tg_type_of(t), i);
}

static void set(tg_tensor *t, int64_t i, double value)
{
    tg_set(tg_data(t), tg_type_of(t), i, value);
}

static tg_status adamw(tg_ctx *ctx, const tg_adamw_args *a)
{
    (void)ctx;
    const double beta1 = a->beta1, beta2 = a->beta2;
    const double correct1 = 1 - pow(beta1, (double)a->step);
    const double correct2 = 1 - pow(beta2, (double)a->step);
    double scale;
    const int64_t n = adamw_scale(a, &scale) ? tg_numel(a->param) : 0;
    for (int64_t i = 0; i < n; i++) {
        const double g = get(a->grad, i) * scale;
        const double m = beta1 * get(a->m, i) + (1 - beta1) * g;
        const double v = beta2 * get(a->v, i) + (1 - beta2) * g * g;
        double p = get(a->master ? a->master : a->param, i);
        p = p * (1 - a->lr * a->weight_decay) -
            a->lr * (m / correct1) / (sqrt(v / correct2) + a->eps);
        set(a->m, i, m);
        set(a->v, i, v);
        if (a->master) { /* param is the rounding of what the master has become */
            set(a->master, i, p);
            p = get(a->master, i);
        }
        set(a->param, i, p);
    }
    return TG_OK;
}

TG_REF_IMPLS(adamw) = {TG_REF_IMPL(adamw, adamw), TG_IMPLS_END};
