/* swiglu, reference: the definition, element by element, in double. */
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

typedef struct options {
    double gate_multiplier, down_multiplier, limit, alpha, up_offset;
} options;

#define OPTIONS(args)                                                                          \
    ((options){(args)->gate_multiplier, (args)->down_multiplier, (args)->limit, (args)->alpha, \
               (args)->up_offset})

/* A place: u and v, s(alpha u), and which of gate and up are within the limit. */
typedef struct place {
    double u, v, s, rest;
    int gate_within, up_within;
} place;

static place place_of(const options *o, double gate, double up)
{
    place p = {.gate_within = !(gate > o->limit), .up_within = !(fabs(up) > o->limit)};
    p.u = (p.gate_within ? gate : o->limit) * o->gate_multiplier;
    p.v = (p.up_within ? up : copysign(o->limit, up)) + o->up_offset;
    p.s = 1 / (1 + exp(-o->alpha * p.u));
    p.rest = 1 / (1 + exp(o->alpha * p.u));
    return p;
}

static tg_status forward(tg_ctx *ctx, const tg_swiglu_forward_args *args)
{
    (void)ctx;
    const gates_rows x = gates_rows_of(args->gate, args->up);
    const tg_rows y = tg_rows_of(args->y);
    const options o = OPTIONS(args);
    for (int64_t r = 0; r < y.rows; r++)
        for (int64_t j = 0; j < y.n; j++) {
            const place p = place_of(&o, at(&x.gate, r, j * x.step), at(&x.up, r, j * x.step));
            put(&y, r, j, p.u * p.s * p.v * o.down_multiplier);
        }
    return TG_OK;
}

static tg_status backward(tg_ctx *ctx, const tg_swiglu_backward_args *args)
{
    (void)ctx;
    const gates_rows x = gates_rows_of(args->gate, args->up);
    const gates_rows dx = gates_rows_of(args->dgate, args->dup);
    const tg_rows dy = tg_rows_of(args->dy), y = args->y ? tg_rows_of(args->y) : (tg_rows){0};
    const options o = OPTIONS(args);
    for (int64_t r = 0; r < dy.rows; r++)
        for (int64_t j = 0; j < dy.n; j++) {
            const double g = at(&dy, r, j) * o.down_multiplier;
            const place p = place_of(&o, at(&x.gate, r, j * x.step), at(&x.up, r, j * x.step));
            const double slope = p.s * (1 + o.alpha * p.u * p.rest) * o.gate_multiplier;
            if (args->y)
                put(&y, r, j, p.u * p.s * p.v * o.down_multiplier);
            put(&dx.up, r, j * dx.step, p.up_within ? g * p.u * p.s : 0);
            put(&dx.gate, r, j * dx.step, p.gate_within ? g * p.v * slope : 0);
        }
    return TG_OK;
}

TG_REF_IMPLS(swiglu) = {
    TG_REF_IMPL(swiglu_forward, forward),
    TG_REF_IMPL(swiglu_backward, backward),
    TG_IMPLS_END,
};
