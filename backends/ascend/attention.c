/* attention.c - see flash_attention.h. */
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

attention_problem attention_of(const tg_tensor *q, const tg_tensor *k, const tg_tensor *v,
                               const tg_tensor *y, const tg_tensor *lse, int causal, double scale)
{
    const int64_t queries = q->shape[1], keys = k->shape[1];
    return (attention_problem){.where = q,
                               .q = attention_view_of(q, 1, 2),
                               .k = attention_view_of(k, 1, 2),
                               .v = attention_view_of(v, 1, 2),
                               .y = attention_view_of(y, 1, 2),
                               .lse = ascend_memory_of(lse),
                               .batches = q->shape[0],
                               .heads = q->shape[2],
                               .key_heads = k->shape[2],
                               .queries = queries,
                               .keys = keys,
                               .d = q->shape[3],
                               .lo = -queries,
                               .hi = causal ? keys - queries + 1 : keys,
                               .phases = 1,
                               .dilation = 1,
                               .positions = queries,
                               .scale = attention_scale(scale, q->shape[3])};
}

int attention_takes(const tg_tensor *q)
{
    return q->shape[3] <= FLASH_MOST_D;
}

int attention_choose(ascend_plan *plan, int64_t half, int64_t pitch, int64_t keys, int64_t most)
{
    const int64_t lanes = ATTENTION_LANES;
    int64_t tile = attention_up(keys > 0 ? keys : 1, lanes);
    for (tile = tile < most ? tile : most; tile > 0; tile = tile / 2 / lanes * lanes) {
        plan->problem.rows = half;
        plan->problem.columns = tile;
        for (int64_t group = MOST_GROUP; group > 0; group -= EIGHT)
            if (group * tile >= pitch && ascend_fits(plan, group, tile))
                return 1;
    }
    return 0;
}
