/* fused_neighborhood_attention, fast: tiles of 16 queries and the band beside them, in f32 scratch
 * that stays in the nearest caches. */
#include "core/services.h"

#include "fused_neighborhood_attention_backward.h"
#include "fused_neighborhood_attention_forward.h"

/* Positions of a task at least: what is worth a thread, and makes little of the windows that tasks
 * share at their ends. */
enum { CHUNK = 256 };

static na_view view(const tg_tensor *t)
{
    const int64_t size = (int64_t)tg_type_size(tg_type_of(t));
    return (na_view){tg_data(t), tg_stride(t, 0) * size, tg_stride(t, 1) * size,
                     tg_stride(t, 2) * size};
}

static na_sizes sizes(const tg_tensor *q, int64_t kernel_size, int64_t dilation, double scale)
{
    const int64_t d = q->shape[3], length = q->shape[2];
    na_sizes n = {.type = (el)tg_el(tg_type_of(q)),
                  .batch = q->shape[0],
                  .heads = q->shape[1],
                  .length = length,
                  .d = d,
                  .dilation = dilation,
                  .half = kernel_size / 2};
    n.half = na_min(n.half, length > 0 ? (length - 1) / n.dilation : 0);
    if (n.half == 0)
        n.dilation = 1; /* each position sees itself alone: one class will do */
    n.width = 2 * n.half + 1;
    n.chunk = na_max(CHUNK, 4 * n.half);
    n.chunks = ((length + n.dilation - 1) / n.dilation + n.chunk - 1) / n.chunk;
    n.panels = (d + VL - 1) / VL;
    n.window = na_window_rows(n.width);
    n.scale = (float)(scale != 0 ? scale : d > 0 ? 1 / sqrt((double)d) : 1);
    return n;
}

/* Tasks that one worker takes at once: some hundred thousand products. */
static int64_t grain(const na_sizes *n, int64_t products)
{
    const int64_t positions = na_min(n->chunk, n->length / n->dilation + 1);
    return ((int64_t)1 << 17) / (positions * (products * n->width + 8) * (n->d + 1)) + 1;
}

static tg_status forward(tg_ctx *ctx, const tg_fused_neighborhood_attention_forward_args *a)
{
    na_forward f = {.n = sizes(a->q, a->kernel_size, a->dilation, a->scale),
                    .q = view(a->q),
                    .k = view(a->k),
                    .v = view(a->v),
                    .y = view(a->y),
                    .lse = tg_data(a->lse)};
    f.scratch_size = na_forward_floats(&f.n);
    f.scratch = tg_workspace(ctx, (size_t)(tg_ctx_threads(ctx) * f.scratch_size) * sizeof(float));
    if (!f.scratch)
        return TG_ENOMEM;
    tg_parallel_for(ctx, na_tasks(&f.n), grain(&f.n, 2), na_forward_tasks, &f);
    return TG_OK;
}

static tg_status backward(tg_ctx *ctx, const tg_fused_neighborhood_attention_backward_args *a)
{
    na_backward w = {.n = sizes(a->q, a->kernel_size, a->dilation, a->scale),
                     .q = view(a->q),
                     .k = view(a->k),
                     .v = view(a->v),
                     .dy = view(a->dy),
                     .dq = view(a->dq),
                     .dk = view(a->dk),
                     .dv = view(a->dv),
                     .lse = tg_data(a->lse)};
    w.scratch_size = na_backward_floats(&w.n);
    w.scratch = tg_workspace(ctx, (size_t)(tg_ctx_threads(ctx) * w.scratch_size) * sizeof(float));
    if (!w.scratch)
        return TG_ENOMEM;
    tg_parallel_for(ctx, na_tasks(&w.n), grain(&w.n, 5), na_backward_tasks, &w);
    return TG_OK;
}

TG_CPU_IMPLS(fused_neighborhood_attention) = {
    TG_CPU_IMPL(fused_neighborhood_attention_forward, forward),
    TG_CPU_IMPL(fused_neighborhood_attention_backward, backward), TG_IMPLS_END};
