/* fused_moe backward, plainly: the definition, slot by slot, in double. */
#include "fused_moe_ref.h"

static void add(const tg_tensor *t, int64_t row, int64_t i, double value, int64_t accumulate)
{
    put(t, row, i, value + (accumulate ? get(t, row, i) : 0));
}

static void add_at(const tg_tensor *t, int64_t transposed, int64_t e, int64_t i, int64_t j,
                   double value, int64_t accumulate)
{
    const grouped_matrices m = grouped_matrices_of(t);
    const int64_t index = grouped_at(&m, transposed, e, i, j);
    tg_set(m.data, m.type, index, value + (accumulate ? tg_get(m.data, m.type, index) : 0));
}

/* A slot's part of the backward pass. */
typedef struct slot_gradient {
    double *pre, *dpre, *value, *dx; /* [2I], [2I], A [I], [H] */
    double dweight;
} slot_gradient;

static void through_gate(const tg_fused_moe_backward_args *a, const gate *g, int64_t e, int64_t t,
                         double weight, slot_gradient *z)
{
    z->dweight = 0;
    for (int64_t h = 0; h < a->x->shape[1]; h++)
        z->dweight += get(a->down_bias, e, h) * get(a->dy, t, h);
    for (int64_t i = 0; i < g->inner; i++) {
        const gated y = gated_of(g, z->pre, i);
        double da = 0;
        for (int64_t h = 0; h < a->x->shape[1]; h++)
            da += at(a->down, a->transposed, e, h, i) * get(a->dy, t, h);
        z->dweight += da * y.value;
        z->value[i] = y.value;
        z->dpre[gate_at(g, i)] = weight * da * y.of_gate;
        z->dpre[up_at(g, i)] = weight * da * y.of_up;
    }
}

/* dx of a slot; with scale_input its weight's gradient. */
static void through_projection(const tg_fused_moe_backward_args *a, const gate *g, int64_t e,
                               int64_t t, double weight, slot_gradient *z)
{
    if (a->scale_input)
        z->dweight = 0;
    for (int64_t h = 0; h < a->x->shape[1]; h++) {
        double sum = 0;
        for (int64_t i = 0; i < 2 * g->inner; i++)
            sum += at(a->gate_up, a->transposed, e, i, h) * z->dpre[i];
        if (a->scale_input)
            z->dweight += sum * get(a->x, t, h);
        z->dx[h] += a->scale_input ? weight * sum : sum;
    }
}

/* What a slot adds to its expert's gradients. */
static void add_parameters(const tg_fused_moe_backward_args *a, const gate *g, int64_t e, int64_t t,
                           double weight, const slot_gradient *z)
{
    const double in = a->scale_input ? weight : 1, out = a->scale_input ? 1 : weight;
    for (int64_t i = 0; i < 2 * g->inner; i++) {
        for (int64_t h = 0; a->dgate_up && h < a->x->shape[1]; h++)
            add_at(a->dgate_up, a->transposed, e, i, h, z->dpre[i] * in * get(a->x, t, h), 1);
        add(a->dgate_up_bias, e, i, z->dpre[i], 1);
    }
    for (int64_t h = 0; h < a->x->shape[1]; h++) {
        for (int64_t i = 0; a->ddown && i < g->inner; i++)
            add_at(a->ddown, a->transposed, e, h, i, get(a->dy, t, h) * out * z->value[i], 1);
        add(a->ddown_bias, e, h, out * get(a->dy, t, h), 1);
    }
}

static void set_zero(const tg_tensor *t)
{
    const tg_rows rows = tg_rows_of(t);
    for (int64_t row = 0; t && row < rows.rows; row++)
        for (int64_t i = 0; i < rows.n; i++)
            put(t, row, i, 0);
}

/* All gradients of parameters in double, which are rounded once: a copy of the tensors. */
static tg_tensor *wide_of(tg_ctx *ctx, const tg_tensor *t, tg_tensor *wide, tg_status *status)
{
    if (!t || *status != TG_OK)
        return NULL;
    double *data = tg_workspace(ctx, (size_t)(tg_numel(t) + 1) * sizeof *data);
    if (!data)
        *status = TG_ENOMEM;
    *wide = tg_tensor_of(data, TG_F64, t->ndim, t->shape);
    if (data)
        set_zero(wide);
    return wide;
}

static void add_rounded(const tg_tensor *to, const tg_tensor *wide, int64_t accumulate)
{
    const tg_rows rows = tg_rows_of(wide);
    for (int64_t row = 0; to && row < rows.rows; row++)
        for (int64_t i = 0; i < rows.n; i++)
            add(to, row, i, get(wide, row, i), accumulate);
}

static void backward_slot(const tg_fused_moe_backward_args *a, const moe_sizes *s, int64_t e,
                          int64_t place, slot_gradient *z)
{
    const gate g = GATE(a, s);
    const int64_t number = ((const int64_t *)tg_data(a->slot))[place];
    const int64_t t = number / s->top_k, k = number % s->top_k;
    const double weight = get(a->weights, t, k);
    if (a->pre)
        for (int64_t i = 0; i < 2 * s->inner; i++)
            z->pre[i] = get(a->pre, place, i);
    else
        project(a->x, a->gate_up, a->gate_up_bias, a->transposed, e, t, a->scale_input ? weight : 1,
                z->pre);
    through_gate(a, &g, e, t, a->scale_input ? 1 : weight, z);
    through_projection(a, &g, e, t, weight, z);
    add_parameters(a, &g, e, t, weight, z);
}

/* The expert of a place, or `experts` for none. */
static int64_t expert_of(const moe_sizes *s, const int64_t *offset, int64_t place)
{
    int64_t e = 0;
    while (e < s->experts && (place < 0 || place >= offset[e + 1]))
        e++;
    return e;
}

static tg_status backward(tg_ctx *ctx, const tg_fused_moe_backward_args *args)
{
    const moe_sizes s = moe_sizes_of(args->x, args->down, args->transposed, args->weights);
    tg_fused_moe_backward_args a = *args;
    tg_tensor wide[4];
    tg_status status = TG_OK;
    a.dgate_up = wide_of(ctx, args->dgate_up, &wide[0], &status);
    a.ddown = wide_of(ctx, args->ddown, &wide[1], &status);
    a.dgate_up_bias = wide_of(ctx, args->dgate_up_bias, &wide[2], &status);
    a.ddown_bias = wide_of(ctx, args->ddown_bias, &wide[3], &status);
    double *memory = tg_workspace(ctx, (size_t)(5 * s.inner + s.hidden + 1) * sizeof *memory);
    if (status != TG_OK || !memory)
        return TG_ENOMEM;
    slot_gradient z = {memory, memory + 2 * s.inner, memory + 4 * s.inner, memory + 5 * s.inner, 0};
    for (int64_t t = 0; t < s.tokens; t++) {
        for (int64_t h = 0; h < s.hidden; h++)
            z.dx[h] = 0;
        for (int64_t k = 0; k < s.top_k; k++) {
            const int64_t place = ((const int64_t *)tg_data(a.place))[t * s.top_k + k];
            const int64_t e = expert_of(&s, tg_data(a.offset), place);
            z.dweight = 0;
            if (e < s.experts)
                backward_slot(&a, &s, e, place, &z);
            put(a.dweights, t, k, z.dweight);
        }
        for (int64_t h = 0; h < s.hidden; h++)
            put(a.dx, t, h, z.dx[h]);
    }
    add_rounded(args->dgate_up, a.dgate_up, a.accumulate);
    add_rounded(args->ddown, a.ddown, a.accumulate);
    add_rounded(args->dgate_up_bias, a.dgate_up_bias, a.accumulate);
    add_rounded(args->ddown_bias, a.ddown_bias, a.accumulate);
    return TG_OK;
}

TG_REF_IMPLS(fused_moe_backward) = {TG_REF_IMPL(fused_moe_backward, backward), TG_IMPLS_END};
