/* qwen2vl_mrope as an eager framework runs it: the sections of the three planes are joined to
 * tables, by which rope's steps go. */
#include "rotary.h"

typedef struct tables {
    mat cos, sin; /* [B S, half] */
    int64_t positions;
} tables;

/* Section by section, batch by batch: a framework's cat of slices. */
static mat join(eager *e, const tg_tensor *t, int64_t batches, const int64_t *section, int64_t half)
{
    const int type = tg_type_of(t);
    const int64_t positions = t->shape[2];
    const mat out = eager_new(e, type, batches * positions, half);
    for (int64_t b = 0; b < batches && out.data; b++)
        for (int64_t plane = 0, begin = 0; plane < 3; begin += section[plane++]) {
            const int64_t at = plane * tg_stride(t, 0) + b * rotary_batch_stride(t, 1);
            const mat from = eager_view(element_at(tg_data(t), type, at), type, positions,
                                        t->shape[3], tg_stride(t, 2));
            const mat to = eager_view(element_at(out.data, type, b * positions * half), type,
                                      positions, half, half);
            eager_unary(e, EAGER_COPY, eager_columns(to, begin, section[plane]),
                        eager_columns(from, begin, section[plane]));
        }
    return out;
}

static mat batch(mat m, int64_t b, int64_t positions)
{
    m.data = element_at(m.data, m.type, b * positions * m.stride);
    m.rows = positions;
    return m;
}

static mat cos_at(const void *by, int64_t b)
{
    const tables *t = by;
    return batch(t->cos, b, t->positions);
}

static mat sin_at(const void *by, int64_t b)
{
    const tables *t = by;
    return batch(t->sin, b, t->positions);
}

static tg_status run(tg_ctx *ctx, rotary_tensors a, const tg_tensor *cos, const tg_tensor *sin,
                     const int64_t *section, int direction)
{
    eager e = eager_begin(ctx);
    const int64_t half = a.q->shape[3] / 2;
    const tables t = {join(&e, cos, a.q->shape[0], section, half),
                      join(&e, sin, a.q->shape[0], section, half), a.q->shape[1]};
    const rotary by = {
        .tables = &t, .cos = cos_at, .sin = sin_at, .half = half, .direction = direction};
    rotary_run(&e, &by, a.q, a.yq);
    rotary_run(&e, &by, a.k, a.yk);
    return eager_end(&e);
}

static tg_status forward(tg_ctx *ctx, const tg_qwen2vl_mrope_forward_args *args)
{
    const int64_t section[] = {args->section_t, args->section_h, args->section_w};
    return run(ctx, ROTARY_FORWARD(args), args->cos, args->sin, section, 1);
}

static tg_status backward(tg_ctx *ctx, const tg_qwen2vl_mrope_backward_args *args)
{
    const int64_t section[] = {args->section_t, args->section_h, args->section_w};
    return run(ctx, ROTARY_BACKWARD(args), args->cos, args->sin, section, -1);
}

UNFUSED_IMPLS(qwen2vl_mrope) = {
    UNFUSED_IMPL(qwen2vl_mrope_forward, forward),
    UNFUSED_IMPL(qwen2vl_mrope_backward, backward),
    TG_IMPLS_END,
};
