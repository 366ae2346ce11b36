/* fused_moe forward, plainly: the definition, slot by slot, in double. */
#include "fused_moe_ref.h"

/* Slots by expert, for each expert a walk over all of them. */
static void route(const moe_sizes *s, const int64_t *index, int64_t capacity, const moe_routing *to)
{
    int64_t at = 0;
    for (int64_t i = 0; i < s->slots; i++)
        to->slot[i] = to->place[i] = -1;
    for (int64_t e = 0; e < s->experts; e++) {
        to->offset[e] = at;
        for (int64_t i = 0; i < s->slots; i++) {
            const int is_full = capacity && at - to->offset[e] == capacity;
            if (index[i] != e || is_full)
                continue;
            to->slot[at] = i;
            to->place[i] = at++;
        }
    }
    to->offset[s->experts] = at;
}

/* y[t] += weight times what the expert makes of pre. */
static void add_result(const tg_fused_moe_forward_args *a, const gate *g, int64_t e, double weight,
                       const double *pre, double *y)
{
    for (int64_t h = 0; h < a->x->shape[1]; h++) {
        double sum = get(a->down_bias, e, h);
        for (int64_t i = 0; i < g->inner; i++)
            sum += at(a->down, a->transposed, e, h, i) * gated_of(g, pre, i).value;
        y[h] += weight * sum;
    }
}

static void forward_token(const tg_fused_moe_forward_args *a, const moe_sizes *s,
                          const moe_routing *r, int64_t t, double *pre, double *y)
{
    const gate g = GATE(a, s);
    for (int64_t h = 0; h < s->hidden; h++)
        y[h] = get(a->addend, t, h);
    for (int64_t k = 0; k < s->top_k; k++) {
        const int64_t place = r->place[t * s->top_k + k];
        const double weight = get(a->weights, t, k);
        const int64_t e = ((const int64_t *)tg_data(a->index))[t * s->top_k + k];
        if (place < 0)
            continue;
        project(a->x, a->gate_up, a->gate_up_bias, a->transposed, e, t, a->scale_input ? weight : 1,
                pre);
        for (int64_t i = 0; i < 2 * s->inner; i++)
            put(a->pre, place, i, pre[i]);
        add_result(a, &g, e, a->scale_input ? 1 : weight, pre, y);
    }
    for (int64_t h = 0; h < s->hidden; h++)
        put(a->y, t, h, y[h]);
}

static void copy(const tg_tensor *to, const int64_t *from, int64_t n)
{
    for (int64_t i = 0; to && i < n; i++)
        ((int64_t *)tg_data(to))[i] = from[i];
}

static tg_status forward(tg_ctx *ctx, const tg_fused_moe_forward_args *a)
{
    const moe_sizes s = moe_sizes_of(a->x, a->down, a->transposed, a->weights);
    const int64_t numbers = 2 * s.slots + s.experts + 1, doubles = 2 * s.inner + s.hidden;
    int64_t *memory = tg_workspace(ctx, (size_t)(numbers + doubles) * sizeof *memory);
    if (!memory)
        return TG_ENOMEM;
    const moe_routing r = {memory, memory + 2 * s.slots, memory + s.slots};
    double *pre = (double *)(memory + numbers), *y = pre + 2 * s.inner;
    route(&s, tg_data(a->index), a->capacity, &r);
    for (int64_t t = 0; t < s.tokens; t++)
        forward_token(a, &s, &r, t, pre, y);
    for (int64_t row = r.offset[s.experts]; row < s.slots; row++)
        for (int64_t i = 0; i < 2 * s.inner; i++)
            put(a->pre, row, i, 0);
    copy(a->slot, r.slot, s.slots);
    copy(a->place, r.place, s.slots);
    copy(a->offset, r.offset, s.experts + 1);
    return TG_OK;
}

TG_REF_IMPLS(fused_moe) = {TG_REF_IMPL(fused_moe_forward, forward), TG_IMPLS_END};
