/* swiglu, reference: the definition, element by element, in double. */
#include <math.h>

#include "core/services.h"

static double at(const tg_rows *t, int64_t r, int64_t j)
{
    return tg_get(t->data, t->type, r * t->stride + j);
}

static void put(const tg_rows *t, int64_t r, int64_t j, double value)
{
    tg_set(t->data, t->type, r * t->stride + j, value);
}

static tg_status forward(tg_ctx *ctx, const tg_swiglu_forward_args *args)
{
    (void)ctx;
    const tg_rows gate = tg_rows_of(args->gate), up = tg_rows_of(args->up), y = tg_rows_of(args->y);
    const double gate_multiplier = args->gate_multiplier;
    const double down_multiplier = args->down_multiplier;
    for (int64_t r = 0; r < y.rows; r++)
        for (int64_t j = 0; j < y.n; j++) {
            const double u = at(&gate, r, j) * gate_multiplier;
            const double silu = u / (1.0 + exp(-u));
            put(&y, r, j, silu * at(&up, r, j) * down_multiplier);
        }
    return TG_OK;
}

static tg_status backward(tg_ctx *ctx, const tg_swiglu_backward_args *args)
{
    (void)ctx;
    const tg_rows dy = tg_rows_of(args->dy), gate = tg_rows_of(args->gate);
    const tg_rows up = tg_rows_of(args->up);
    const tg_rows dgate = tg_rows_of(args->dgate), dup = tg_rows_of(args->dup);
    const tg_rows y = args->y ? tg_rows_of(args->y) : (tg_rows){0};
    const double gate_multiplier = args->gate_multiplier;
    const double down_multiplier = args->down_multiplier;
    for (int64_t r = 0; r < gate.rows; r++)
        for (int64_t j = 0; j < gate.n; j++) {
            const double g = at(&dy, r, j) * down_multiplier;
            const double u = at(&gate, r, j) * gate_multiplier, b = at(&up, r, j);
            const double s = 1.0 / (1.0 + exp(-u));
            if (args->y)
                put(&y, r, j, u / (1.0 + exp(-u)) * b * down_multiplier);
            put(&dup, r, j, g * u * s);
            put(&dgate, r, j, g * b * s * (1.0 + u * (1.0 - s)) * gate_multiplier);
        }
    return TG_OK;
}

TG_REF_IMPLS(swiglu) = {
    TG_REF_IMPL(swiglu_forward, forward),
    TG_REF_IMPL(swiglu_backward, backward),
    TG_IMPLS_END,
};
