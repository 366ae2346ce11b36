/* attention.c - see flash_attention.h. */
#include <float.h>

#include "flash_attention.h"
#include "kernels/attention/flash_attention.args.h"

enum { MOST_GROUP = 16, EIGHT = 8 };

int64_t attention_up(int64_t n, int64_t step)
{
    return (n + step - 1) / step * step;
}

double attention_scale(double scale, int64_t d)
{
    return scale != 0 ? scale : d > 0 ? 1 / sqrt((double)d) : 1;
}

int64_t attention_half(int64_t d, int64_t rows)
{
    const int64_t pitch = attention_up(d, ATTENTION_LANES);
    return pitch > FLASH_SUMS ? rows * FLASH_SUMS / pitch : rows;
}

attention_view attention_view_of(const tg_tensor *t, int of_rows, int of_heads)
{
    return (attention_view){ascend_memory_of(t), tg_stride(t, 0), tg_stride(t, of_rows),
                            tg_stride(t, of_heads)};
}

attention_problem attention_of(const attention_given *a)
{
    const int64_t queries = a->q->shape[1], keys = a->k->shape[1], all = queries + keys;
    const int64_t left = a->window_left, right = a->causal ? 0 : a->window_right;
    return (attention_problem){
        .where = a->q,
        .q = attention_view_of(a->q, 1, 2),
        .k = attention_view_of(a->k, 1, 2),
        .v = attention_view_of(a->v, 1, 2),
        .y = attention_view_of(a->y, 1, 2),
        .lse = ascend_memory_of(a->lse),
        .ends_q = ascend_memory_of(a->cu_seqlens_q),
        .ends_k = ascend_memory_of(a->cu_seqlens_k),
        .sequences = a->cu_seqlens_q ? a->cu_seqlens_q->shape[0] + 1 : 0,
        .batches = a->q->shape[0],
        .heads = a->q->shape[2],
        .key_heads = a->k->shape[2],
        .queries = queries,
        .keys = keys,
        .d = a->q->shape[3],
        .e = a->v->shape[3],
        .lo = left < 0 || left > all ? -all : -left, /* no limit, and none that overflows */
        .hi = 1 + (right < 0 || right > all ? all : right),
        .phases = 1,
        .dilation = 1,
        .positions = queries,
        .scale = attention_scale(a->scale, a->q->shape[3]),
        .bias = ascend_memory_of(a->bias),
        .bias_type = a->bias ? ascend_any(a->bias) : 0,
        .bias_batch = a->bias ? tg_stride(a->bias, 0) : 0,
        .bias_head = a->bias ? tg_stride(a->bias, 1) : 0,
        .bias_row = a->bias ? tg_stride(a->bias, 2) : 0,
        .softcap = a->softcap,
        .dropout = a->dropout,
        .sinks = a->sinks,
    };
}

int attention_takes(const tg_tensor *t)
{
    return t->shape[3] <= FLASH_MOST_D;
}

/* A cap with which arithmetic in f32 is possible. */
static int takes_softcap(const attention_given *a)
{
    const double scale = attention_scale(a->scale, a->q->shape[3]);
    return a->softcap == 0 || (a->softcap >= FLT_MIN && a->softcap <= FLT_MAX &&
                               fabs(2 * scale / a->softcap) <= FLT_MAX);
}

int attention_accepts(const attention_given *a)
{
    return attention_takes(a->q) && attention_takes(a->v) && takes_softcap(a);
}

int attention_changes(const attention_problem *p)
{
    return p->bias.at ? FLASH_CHANGES : p->softcap != 0 ? FLASH_CHANGES - FLASH_CAP : 0;
}

uint32_t attention_options(const attention_problem *p)
{
    return p->dropout.least ? FLASH_DROPS : 0;
}

tg_status attention_sinks(tg_ctx *ctx, const attention_problem *p, ascend_memory *sinks)
{
    *sinks = ascend_memory_of(p->sinks);
    if (!p->sinks || tg_type_of(p->sinks) == TG_F32)
        return TG_OK;
    const size_t bytes = (size_t)p->sinks->shape[0] * sizeof(float);
    void *memory;
    ASCEND_TRY(ascend_scratch(ctx, bytes, &memory));
    tg_tensor wide = tg_tensor_of(memory, TG_F32, 1, p->sinks->shape);
    wide.device = p->sinks->device;
    *sinks = (ascend_memory){memory, bytes};
    return ascend_convert(ctx, p->sinks, &wide);
}

/* Scores of a group. */
static int64_t most_scores(const ascend_plan *plan, int64_t half)
{
    return plan->problem.options & FLASH_DROPS ? FLASH_MOST_DRAWN(half) : INT64_MAX;
}

int attention_choose(ascend_plan *plan, int64_t half, int64_t pitch, int64_t keys, int64_t most)
{
    const int64_t lanes = ATTENTION_LANES;
    int64_t tile = attention_up(keys > 0 ? keys : 1, lanes);
    for (tile = tile < most ? tile : most; tile > 0; tile = tile / 2 / lanes * lanes) {
        plan->problem.rows = half;
        plan->problem.columns = tile;
        for (int64_t group = MOST_GROUP; group > 0; group -= EIGHT)
            if (group * tile >= pitch && group * tile <= most_scores(plan, half) &&
                ascend_fits(plan, group, tile))
                return 1;
    }
    return 0;
}
