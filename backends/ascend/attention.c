/* attention.c - see flash_attention.h. */
#include <math.h>

#include "flash_attention.h"
#include "kernels/flash_attention.args.h"

enum { MOST_KEYS = 512, MOST_GROUP = 16, EIGHT = 8 };

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

static int64_t stride_of(const tg_tensor *t, int i)
{
    int64_t stride = 1;
    if (t->strides)
        return t->strides[i];
    for (int d = i + 1; d < t->ndim; d++)
        stride *= t->shape[d];
    return stride;
}

attention_view attention_view_of(const tg_tensor *t)
{
    const ascend_rows rows = ascend_rows_of(t);
    return (attention_view){
        {rows.data, rows.bytes}, stride_of(t, 0), stride_of(t, 1), stride_of(t, 2)};
}

int attention_takes(const tg_tensor *q)
{
    return q->shape[3] <= FLASH_MOST_D;
}

int attention_choose(ascend_plan *plan, int64_t half, int64_t pitch, int64_t keys)
{
    const int64_t lanes = ATTENTION_LANES;
    int64_t tile = attention_up(keys > 0 ? keys : 1, lanes);
    for (tile = tile < MOST_KEYS ? tile : MOST_KEYS; tile > 0; tile = tile / 2 / lanes * lanes) {
        plan->problem.rows = half;
        plan->problem.columns = tile;
        for (int64_t group = MOST_GROUP; group > 0; group -= EIGHT)
            if (group * tile >= pitch && ascend_fits(plan, group, tile))
                return 1;
    }
    return 0;
}
