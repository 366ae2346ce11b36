/* fused_neighborhood_attention.c - its host: classes of positions that are equal modulo the dilation, each a sequence without one. */
#include "flash_attention.h"

static attention_view view_of(const tg_tensor *t)
{
    return attention_view_of(t, 2, 1);
}

/* Without the dilation, which is that of classes_of(). */
static attention_problem problem_of(const tg_tensor *q, const tg_tensor *k, const tg_tensor *v,
                                    const tg_tensor *lse, int64_t kernel_size, double scale)
{
    const int64_t half = kernel_size / 2 < q->shape[2] ? kernel_size / 2 : q->shape[2];
    return (attention_problem){.where = q,
                               .q = view_of(q),
                               .k = view_of(k),
                               .v = view_of(v),
                               .lse = ascend_memory_of(lse),
                               .batches = q->shape[0],
                               .heads = q->shape[1],
                               .d = q->shape[3],
                               .lo = -half,
                               .hi = half + 1,
                               .positions = q->shape[2],
                               .scale = attention_scale(scale, q->shape[3])};
}

static ascend_memory behind(ascend_memory memory, int64_t bytes)
{
    if (!memory.at)
        return memory;
    return (ascend_memory){(const char *)memory.at + bytes, memory.bytes - (size_t)bytes};
}

/* Of a problem those classes that are one position longer than the others, and the others. */
static attention_problem classes_of(const attention_problem *all, int64_t dilation, int longer)
{
    const int64_t step = dilation < all->positions ? dilation : all->positions;
    const int64_t extra = all->positions % step, first = longer ? 0 : extra;
    const int64_t size = (int64_t)tg_type_size(tg_type_of(all->where));
    attention_problem p = *all;
    attention_view *const views[] = {&p.q, &p.k, &p.v, &p.y, &p.dy, &p.dq, &p.dk, &p.dv};
    for (int i = 0; i < ASCEND_COUNT(views); i++)
        views[i]->memory = behind(views[i]->memory, first * views[i]->row * size);
    p.lse = behind(p.lse, first * (int64_t)sizeof(float));
    p.phases = longer ? extra : step - extra;
    p.dilation = step;
    p.queries = p.keys = all->positions / step + longer;
    p.heads = p.key_heads = all->heads * p.phases;
    return p;
}

/* Calls `run` with both. */
static tg_status run_classes(tg_ctx *ctx, const attention_problem *all, int64_t dilation,
                             tg_status (*run)(tg_ctx *ctx, const attention_problem *p))
{
    if (all->batches * all->heads * all->positions == 0)
        return TG_OK;
    for (int longer = 0; longer < 2; longer++) {
        const attention_problem p = classes_of(all, dilation, longer);
        if (p.phases > 0)
            ASCEND_TRY(run(ctx, &p));
    }
    return TG_OK;
}

int ascend_fused_neighborhood_attention_forward_accepts(
    const tg_fused_neighborhood_attention_forward_args *args)
{
    return attention_takes(args->q);
}

int ascend_fused_neighborhood_attention_backward_accepts(
    const tg_fused_neighborhood_attention_backward_args *args)
{
    return attention_takes(args->q);
}

tg_status ascend_fused_neighborhood_attention_forward(
    tg_ctx *ctx, const tg_fused_neighborhood_attention_forward_args *args)
{
    attention_problem p =
        problem_of(args->q, args->k, args->v, args->lse, args->kernel_size, args->scale);
    p.y = view_of(args->y);
    return run_classes(ctx, &p, args->dilation, attention_forward);
}

/* With y again, for the sums of dy y. */
static tg_status backward(tg_ctx *ctx, const attention_problem *p)
{
    attention_problem forward = *p;
    forward.lse = (ascend_memory){NULL, 0};
    ASCEND_TRY(attention_forward(ctx, &forward));
    return attention_backward(ctx, p);
}

/* Memory for y. */
static tg_status take_y(tg_ctx *ctx, attention_problem *p)
{
    const int64_t head = p->positions * p->d;
    const size_t size = tg_type_size(tg_type_of(p->where));
    const size_t bytes = (size_t)(p->batches * p->heads * head) * size;
    void *memory;
    ASCEND_TRY(ascend_scratch(ctx, bytes, &memory));
    p->y = (attention_view){{memory, bytes}, p->heads * head, p->d, head};
    return TG_OK;
}

tg_status ascend_fused_neighborhood_attention_backward(
    tg_ctx *ctx, const tg_fused_neighborhood_attention_backward_args *args)
{
    attention_problem p =
        problem_of(args->q, args->k, args->v, args->lse, args->kernel_size, args->scale);
    p.dy = view_of(args->dy);
    p.dq = view_of(args->dq);
    p.dk = view_of(args->dk);
    p.dv = view_of(args->dv);
    ASCEND_TRY(take_y(ctx, &p));
    return run_classes(ctx, &p, args->dilation, backward);
}
