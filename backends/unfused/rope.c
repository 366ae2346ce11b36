/* rope as an eager framework runs it: x * cos + rotate_half(x) * sin, one pass and one temporary a
 * step, in the storage type, or in f32 where the tables are f32. */
#include "tigon/options.h"

#include "rotary.h"

typedef struct tables {
    const tg_tensor *cos, *sin;
    int64_t offset;
} tables;

/* Positions from `offset` on, of one batch. */
static mat table_at(const tg_tensor *t, int64_t b, int64_t offset)
{
    const int64_t stride = tg_stride(t, t->ndim - 2);
    const int64_t at = b * rotary_batch_stride(t, t->ndim - 3) + offset * stride;
    return eager_view(element_at(tg_data(t), tg_type_of(t), at), tg_type_of(t),
                      t->shape[t->ndim - 2] - offset, t->shape[t->ndim - 1], stride);
}

static mat cos_at(const void *by, int64_t b)
{
    const tables *t = by;
    return table_at(t->cos, b, t->offset);
}

static mat sin_at(const void *by, int64_t b)
{
    const tables *t = by;
    return table_at(t->sin, b, t->offset);
}

static tg_status run(tg_ctx *ctx, rotary_tensors a, const tg_tensor *cos, const tg_tensor *sin,
                     const tg_rope_options *o)
{
    const tables t = {cos, sin, o->position_offset};
    const rotary by = {.tables = &t,
                       .cos = cos_at,
                       .sin = sin_at,
                       .start = o->rotary_start,
                       .half = tg_rope_pairs(o, a.q->shape[3]),
                       .direction = o->transposed ? -1 : 1,
                       .from_neighbours = tg_rope_is_adjacent(o, 0),
                       .to_neighbours = tg_rope_is_adjacent(o, 1)};
    eager e = eager_begin(ctx);
    rotary_run(&e, &by, a.q, a.yq);
    rotary_run(&e, &by, a.k, a.yk);
    return eager_end(&e);
}

static tg_status forward(tg_ctx *ctx, const tg_rope_forward_args *args)
{
    const tg_rope_options o = tg_rope_forward_options(args);
    return run(ctx, ROTARY_FORWARD(args), args->cos, args->sin, &o);
}

static tg_status backward(tg_ctx *ctx, const tg_rope_backward_args *args)
{
    const tg_rope_options o = tg_rope_backward_options(args);
    return run(ctx, ROTARY_BACKWARD(args), args->cos, args->sin, &o);
}

UNFUSED_IMPLS(rope) = {
    UNFUSED_IMPL(rope_forward, forward),
    UNFUSED_IMPL(rope_backward, backward),
    TG_IMPLS_END,
};
