/* geglu, reference: the definition, element by element, in double. */
#include <math.h>

#include "gates/gates.h"

static double at(const tg_rows *t, int64_t r, int64_t j)
{
    return tg_get(t->data, t->type, r * t->stride + j);
}

static void put(const tg_rows *t, int64_t r, int64_t j, double value)
{
    tg_set(t->data, t->type, r * t->stride + j, value);
}

typedef struct gelu {
    double value, slope;
} gelu;

/* a / (1 + exp(-u)) */
static gelu gelu_tanh(double a)
{
    const double c = 2 * sqrt(2 / M_PI);
    const double u = c * (a + 0.044715 * a * a * a), du = c * (1 + 3 * 0.044715 * a * a);
    const double s = 1 / (1 + exp(-u)), rest = 1 / (1 + exp(u));
    return (gelu){a * s, s + a * s * rest * du};
}

/* a times the normal distribution function */
static gelu gelu_exact(double a)
{
    const double below = 0.5 * erfc(-a / sqrt(2)), bell = exp(-0.5 * a * a) / sqrt(2 * M_PI);
    return (gelu){a * below, below + a * bell};
}

static gelu gelu_of(double a, int64_t exact)
{
    return exact ? gelu_exact(a) : gelu_tanh(a);
}

static tg_status forward(tg_ctx *ctx, const tg_geglu_forward_args *args)
{
    (void)ctx;
    const gates_rows x = gates_rows_of(args->gate, args->up);
    const tg_rows y = tg_rows_of(args->y);
    for (int64_t r = 0; r < y.rows; r++)
        for (int64_t j = 0; j < y.n; j++)
            put(&y, r, j,
                gelu_of(at(&x.gate, r, j * x.step), args->exact).value * at(&x.up, r, j * x.step));
    return TG_OK;
}

static tg_status backward(tg_ctx *ctx, const tg_geglu_backward_args *args)
{
    (void)ctx;
    const gates_rows x = gates_rows_of(args->gate, args->up);
    const gates_rows dx = gates_rows_of(args->dgate, args->dup);
    const tg_rows dy = tg_rows_of(args->dy);
    for (int64_t r = 0; r < dy.rows; r++)
        for (int64_t j = 0; j < dy.n; j++) {
            const double g = at(&dy, r, j), b = at(&x.up, r, j * x.step);
            const gelu a = gelu_of(at(&x.gate, r, j * x.step), args->exact);
            put(&dx.up, r, j * dx.step, g * a.value);
            put(&dx.gate, r, j * dx.step, g * b * a.slope);
        }
    return TG_OK;
}

TG_REF_IMPLS(geglu) = {
    TG_REF_IMPL(geglu_forward, forward),
    TG_REF_IMPL(geglu_backward, backward),
    TG_IMPLS_END,
};
