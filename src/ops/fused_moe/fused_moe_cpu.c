/* fused_moe on the CPU, forward: two products of rows in groups, with the gate behind the first,
 * and the sum over a token's slots. */
#include "fused_moe_cpu_sum.h"

/* ---- the sum over slots ---- */

typedef struct combination {
    moe_sizes sizes;
    moe_sum sum;
    el type;
} combination;

SIMD_INLINE void combine_tokens(el e, const combination *c, int64_t begin, int64_t end)
{
    for (int64_t t = begin; t < end; t++)
        moe_sum_slots(e, &c->sizes, &c->sum, t);
}

static void combine(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const combination *c = arg;
    EL_SPECIALIZE(c->type, combine_tokens, c, begin, end);
}

/* ---- the call ---- */

typedef struct forward_memory {
    moe_routing routing;
    moe_rows scaled, act, rows;
    const float *weights, *gate_up_bias, *down_bias;
    grouped_memory products;
} forward_memory;

static int64_t *numbers(tg_ctx *ctx, const tg_tensor *t, int64_t n, tg_status *status)
{
    int64_t *memory = t ? tg_data(t) : tg_workspace(ctx, (size_t)(n + 1) * sizeof *memory);
    if (!memory && n > 0)
        *status = TG_ENOMEM;
    return memory;
}

static tg_status begin(tg_ctx *ctx, const tg_fused_moe_forward_args *args, const moe_sizes *s,
                       forward_memory *m)
{
    const el e = (el)tg_el(tg_type_of(args->x));
    tg_status status = TG_OK;
    m->routing.slot = numbers(ctx, args->slot, s->slots, &status);
    m->routing.place = numbers(ctx, args->place, s->slots, &status);
    m->routing.offset = numbers(ctx, args->offset, s->experts + 1, &status);
    m->act = moe_new_rows(ctx, e, s->slots, s->inner);
    m->rows = moe_new_rows(ctx, e, s->slots, s->hidden);
    m->scaled = args->scale_input ? moe_new_rows(ctx, e, s->slots, s->hidden) : (moe_rows){0};
    if (status || !m->act.data || !m->rows.data || (args->scale_input && !m->scaled.data))
        return TG_ENOMEM;
    TG_TRY(grouped_floats(ctx, args->weights, &m->weights));
    TG_TRY(grouped_floats(ctx, args->gate_up_bias, &m->gate_up_bias));
    TG_TRY(grouped_floats(ctx, args->down_bias, &m->down_bias));
    return grouped_reserve(ctx, s->experts, &m->products);
}

/* The first that writes: all memory but its own has been taken. */
static tg_status route(tg_ctx *ctx, const tg_fused_moe_forward_args *args, const moe_sizes *s,
                       const moe_routing *to)
{
    const int64_t slots = s->slots, boundaries = s->experts + 1;
    tg_tensor slot = tg_tensor_of(to->slot, TG_I64, 1, &slots);
    tg_tensor offset = tg_tensor_of(to->offset, TG_I64, 1, &boundaries);
    tg_tensor place = tg_tensor_of(to->place, TG_I64, 2, args->index->shape);
    return tg_moe_route(ctx, &(tg_moe_route_args){.index = args->index,
                                                  .slot = &slot,
                                                  .offset = &offset,
                                                  .place = &place,
                                                  .experts = s->experts,
                                                  .capacity = args->capacity});
}

static void first_product(tg_ctx *ctx, const tg_fused_moe_forward_args *args, const moe_sizes *s,
                          const forward_memory *m)
{
    moe_projection p = {.sizes = *s,
                        .gate = MOE_GATE(args),
                        .x = grouped_factor_of(args->x, m->routing.slot, s->top_k),
                        .gate_up = grouped_factor_of(args->gate_up, NULL, 1),
                        .transposed = args->transposed,
                        .offset = m->routing.offset,
                        .bias = m->gate_up_bias,
                        .pre = moe_rows_of(args->pre),
                        .act = m->act,
                        .type = (el)tg_el(tg_type_of(args->x))};
    if (args->scale_input) {
        moe_scaled_rows(ctx, s, args->x, m->weights, m->routing.slot, p.offset[s->experts],
                        &m->scaled);
        p.x = grouped_factor_at(m->scaled.data, p.type, m->scaled.stride);
    }
    moe_project(ctx, &m->products, &p);
    grouped_clear(ctx, args->pre, p.offset[s->experts]);
}

static void second_product(tg_ctx *ctx, const tg_fused_moe_forward_args *args, const moe_sizes *s,
                           const forward_memory *m)
{
    const el e = (el)tg_el(tg_type_of(args->x));
    const grouped_output o = {
        .data = m->rows.data, .type = e, .stride = m->rows.stride, .bias = m->down_bias};
    const grouped_product p = {.groups = s->experts,
                               .offset = m->routing.offset,
                               .left = grouped_factor_at(m->act.data, e, m->act.stride),
                               .right = grouped_factor_of(args->down, NULL, 1),
                               .terms_are_rows = args->transposed != 0,
                               .right_rows = args->down->shape[1],
                               .cols = s->hidden,
                               .terms = s->inner,
                               .write = grouped_write,
                               .arg = &o};
    grouped_run(ctx, &m->products, &p);
}

static tg_status forward(tg_ctx *ctx, const tg_fused_moe_forward_args *args)
{
    const moe_sizes s = moe_sizes_of(args->x, args->down, args->transposed, args->weights);
    forward_memory m;
    TG_TRY(begin(ctx, args, &s, &m));
    TG_TRY(route(ctx, args, &s, &m.routing));
    first_product(ctx, args, &s, &m);
    second_product(ctx, args, &s, &m);
    const combination c = {.sizes = s,
                           .sum = {.rows = m.rows,
                                   .addend = moe_rows_of(args->addend),
                                   .to = moe_rows_of(args->y),
                                   .place = m.routing.place,
                                   .used = m.routing.offset[s.experts],
                                   .weights = args->scale_input ? NULL : m.weights},
                           .type = (el)tg_el(tg_type_of(args->x))};
    tg_parallel_for(ctx, s.tokens, 65536 / (s.hidden * s.top_k + 1) + 1, combine, (void *)&c);
    return TG_OK;
}

TG_CPU_IMPLS(fused_moe) = {TG_CPU_IMPL_IF(fused_moe_forward, GROUPED_TAKES, NULL, forward),
                           TG_IMPLS_END};
