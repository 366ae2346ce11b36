/* tiling.c - tg_ub_default_tiling(): Liger's sizes of blocks, for kernels that were
 * tuned with them. The arithmetic is floating point where Liger's is, in its order, so
 * that the digits agree. */
#include <math.h>

#include "tigon/backend.h"
#include "tigon/npu.h"

static const int64_t LARGEST = (int64_t)1 << 62;

/* The least power of two that is at least n; 0 for what is not above 0. */
static int64_t padded(int64_t n)
{
    int64_t power = n > 0;
    while (power < n)
        power *= 2;
    return power;
}

static int is_tiled(const tg_ub_list *dims, int64_t dim)
{
    for (int i = 0; i < dims->count; i++)
        if (dims->at[i] == dim)
            return 1;
    return 0;
}

/* Elements of the dimensions that are not tiled; 1 if one of them is empty. */
static double fixed_elements(const tg_ub_list *shape, const tg_ub_list *dims)
{
    double unit = 1;
    for (int d = 0; d < shape->count; d++) {
        if (is_tiled(dims, d))
            continue;
        if (shape->at[d] <= 0)
            return 1;
        unit *= (double)shape->at[d];
    }
    return unit;
}

/* The most elements of a tiled dimension: at least 1, as many as a power of two. */
static int64_t most_elements(const tg_ub_tiling *t, int64_t capacity, double bits)
{
    const double margin = t->safety_margin != 0 ? t->safety_margin : 0.80;
    const double by_margin = floor(trunc((double)capacity * margin) / bits);
    const double by_cap = floor((double)capacity / (bits * 4.0 / 3.0));
    const double fits = t->uncapped || by_margin < by_cap ? by_margin : by_cap;
    const int64_t most = fits >= (double)LARGEST ? LARGEST : fits >= 1 ? (int64_t)fits : 1;
    return padded(most) == most ? most : padded(most) / 2;
}

static tg_status check(const tg_ub_tiling *t, int i)
{
    const tg_ub_list *shape = &t->shapes[i], *dims = &t->tiling_dims[i];
    if (dims->count <= 0)
        return tg_fail(TG_EINVAL, "tiling_dims[%d] is empty, expected at least one dimension", i);
    for (int k = 0; k < dims->count; k++)
        if (dims->at[k] < 0 || dims->at[k] >= shape->count)
            return tg_fail(
                TG_EINVAL,
                "tiling_dims[%d] has dimension %lld, expected 0 or more and below %d, the "
                "dimensions of shapes[%d]",
                i, (long long)dims->at[k], shape->count, i);
    for (int d = 0; d < shape->count; d++)
        if (shape->at[d] > LARGEST)
            return tg_fail(TG_EINVAL, "shapes[%d][%d] is %lld, expected at most 2^62", i, d,
                           (long long)shape->at[d]);
    return TG_OK;
}

tg_status tg_ub_default_tiling(const tg_ub_tiling *t, int64_t *const *blocks, int *nblocks)
{
    int64_t capacity;
    *nblocks = 0;
    const tg_status status = tg_ub_capacity_bits(t->capacity_bits, NULL, &capacity, NULL);
    if (status)
        return status;
    if (!t->nshapes || !t->ntiling_dims || t->nshapes != t->ntiling_dims)
        return TG_OK;
    const double multiplier = t->memory_multiplier > 0 ? t->memory_multiplier : 10.0;
    const int64_t dtype_size = t->dtype_size > 0 ? t->dtype_size : 4;
    if (!isfinite(t->safety_margin) || !isfinite(t->memory_multiplier))
        return tg_fail(TG_EINVAL, "safety_margin, memory_multiplier are %g, %g, expected numbers",
                       t->safety_margin, t->memory_multiplier);
    for (int i = 0; i < t->nshapes; i++) {
        const tg_status wrong = check(t, i);
        if (wrong)
            return wrong;
    }
    for (int i = 0; i < t->nshapes; i++) {
        const tg_ub_list *shape = &t->shapes[i], *dims = &t->tiling_dims[i];
        const double bits = multiplier * fixed_elements(shape, dims) * (double)dtype_size * 8;
        const int64_t safe = most_elements(t, capacity, bits);
        for (int d = 0; d < shape->count; d++) {
            const int64_t size = padded(shape->at[d]), tile = size < safe ? size : safe;
            blocks[i][d] = !is_tiled(dims, d) ? size : tile < 1 ? 1 : tile;
        }
    }
    *nblocks = t->nshapes;
    return TG_OK;
}
