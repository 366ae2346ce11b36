/* Indices in the data of a call, such as targets: whether all of them are in range. Every call asks, however often its form
 * has passed, and so both loops are compiled for what the machine has, and decide nothing: they become loops of vectors. */
#include <stdio.h>
#include <string.h>

#include "core/core.h"

typedef uint32_t half __attribute__((may_alias));

/* 1: each of them is below count. The largest of either half, put together, is no less than any index; and it is no larger
 * than the largest index where one half is always 0, as in all indices below 2^32. */
static inline __attribute__((always_inline)) int all_below(const int64_t *index, int64_t n,
                                                           uint64_t count)
{
    const half *const x = (const half *)index;
    uint32_t first = 0, second = 0;
#pragma GCC unroll 8
    for (int64_t i = 0; i < n; i++) {
        first = x[2 * i] > first ? x[2 * i] : first;
        second = x[2 * i + 1] > second ? x[2 * i + 1] : second;
    }
    const uint32_t halves[] = {first, second};
    uint64_t most;
    memcpy(&most, halves, sizeof most);
    return most < count;
}

/* An index is in range when neither it nor count - 1 - index has its sign bit set, and is not `ignored` when the difference
 * or its negative has. */
static inline __attribute__((always_inline)) int all_fit(const int64_t *index, int64_t n,
                                                         uint64_t count, uint64_t ignored)
{
    uint64_t signs = 0;
    for (int64_t i = 0; i < n; i++) {
        const uint64_t x = (uint64_t)index[i], outside = x | (count - 1 - x), other = x ^ ignored;
        signs |= outside & (other | -other);
    }
    return (int64_t)signs >= 0;
}

typedef struct scanner {
    int (*below)(const int64_t *index, int64_t n, uint64_t count);
    int (*fit)(const int64_t *index, int64_t n, uint64_t count, uint64_t ignored);
} scanner;

#define SCANNER(name, level)                                                                       \
    level static int below_##name(const int64_t *index, int64_t n, uint64_t count)                 \
    {                                                                                              \
        return all_below(index, n, count);                                                         \
    }                                                                                              \
    level static int fit_##name(const int64_t *index, int64_t n, uint64_t count, uint64_t ignored) \
    {                                                                                              \
        return all_fit(index, n, count, ignored);                                                  \
    }                                                                                              \
    static const scanner name = {below_##name, fit_##name};
SCANNER(base, )
#if defined(__x86_64__)
SCANNER(v2, __attribute__((target("sse4.2"))))
SCANNER(v3, __attribute__((target("avx2"))))
#endif

static inline const scanner *scanner_of_machine(void)
{
#if defined(__x86_64__)
    if (TG_LIKELY(__builtin_cpu_supports("avx2")))
        return &v3;
    if (__builtin_cpu_supports("sse4.2"))
        return &v2;
#endif
    return &base;
}

int tg_in_range(const index_rows *r, const int64_t *index)
{
    const scanner *s = scanner_of_machine();
    for (int64_t i = 0; i < r->rows; i++, index += r->stride)
        if (!s->below(index, r->n, r->count) && !s->fit(index, r->n, r->count, r->other))
            return 0;
    return 1;
}

index_rows tg_index_rows(const tg_tensor *t, int64_t count, const int64_t *ignored)
{
    const tg_rows r = tg_rows_of(t);
    const int compact = r.stride == r.n;
    return (index_rows){.rows = compact ? 1 : r.rows,
                        .n = compact ? r.rows * r.n : r.n,
                        .stride = r.stride,
                        .count = (uint64_t)count,
                        .other = (uint64_t)(ignored ? *ignored : count - 1)};
}

tg_status tg_expect_indices(const char *op, const char *name, const tg_tensor *t, int64_t count,
                            const int64_t *ignored)
{
    if (t->device.device_type != TG_DEVICE_CPU)
        return TG_OK;
    tg_check_reads_indices(t, count, ignored);
    const int64_t *index = tg_data(t), n = tg_numel(t);
    const index_rows rows = tg_index_rows(t, count, ignored);
    if (n == 0 || ((count > 0 || ignored) && tg_in_range(&rows, index)))
        return TG_OK;
    int64_t i = 0;
    while ((index[i] >= 0 && index[i] < count) || (ignored && index[i] == *ignored))
        i++;
    char or_ignored[48] = "";
    if (ignored)
        snprintf(or_ignored, sizeof or_ignored, " or ignore_index, which is %lld",
                 (long long)*ignored);
    return tg_fail(TG_EINVAL, "%s: %s[%lld] is %lld, out of bounds: expected in [0, %lld)%s", op,
                   name, (long long)i, (long long)index[i], (long long)count, or_ignored);
}
