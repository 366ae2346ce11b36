/* Indices in the data of a call, such as targets: whether all of them are in range. Every call asks, however often its form
 * has passed, and so both loops are compiled for what the machine has, and decide nothing: they become loops of vectors. */
#include <stdio.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

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

/* Narrow indices: `ignored`, as i64, need not be one. */
static inline __attribute__((always_inline)) int all_fit_narrow(const int32_t *index, int64_t n,
                                                                uint64_t count, uint64_t ignored)
{
    uint32_t outside = 0;
    for (int64_t i = 0; i < n; i++) {
        const uint64_t x = (uint64_t)(int64_t)index[i];
        outside |= (uint32_t)(x >= count) & (uint32_t)(x != ignored);
    }
    return !outside;
}

static int narrow_in_range(const index_rows *r, const int32_t *index)
{
    for (int64_t i = 0; i < r->rows; i++, index += r->stride)
        if (!all_fit_narrow(index, r->n, r->count, r->other))
            return 0;
    return 1;
}

/* tg_in_range(), by what the machine has. */
#define IN_RANGE(name, level, below)                                                        \
    level static __attribute__((noinline)) int name##_fit(const int64_t *index, int64_t n,  \
                                                          uint64_t count, uint64_t ignored) \
    {                                                                                       \
        return all_fit(index, n, count, ignored);                                           \
    }                                                                                       \
    level static int name(const index_rows *r, const int64_t *index)                        \
    {                                                                                       \
        for (int64_t i = 0; i < r->rows; i++, index += r->stride)                           \
            if (!TG_LIKELY(below(index, r->n, r->count)) &&                                 \
                !name##_fit(index, r->n, r->count, r->other))                               \
                return 0;                                                                   \
        return 1;                                                                           \
    }
IN_RANGE(base, , all_below)

#if defined(__x86_64__)
IN_RANGE(v2, __attribute__((target("sse4.2"))), all_below)

/* Some few, out of the way. */
static __attribute__((noinline)) int few_below(const int64_t *index, int64_t n, uint64_t count)
{
    return all_below(index, n, count);
}

/* all_below() by turns with two vectors: one, as compilers make of it, would wait for itself, and loads could pass twice as
 * fast. The last two begin within those before them. */
static inline __attribute__((always_inline, target("avx2"))) int
all_below_v3(const int64_t *index, int64_t n, uint64_t count)
{
    enum { STEP = 8 };
    if (!TG_LIKELY(n >= STEP))
        return few_below(index, n, count);
    const int64_t *const last = index + n - STEP;
    __m256i even = _mm256_loadu_si256((const __m256i *)last),
            odd = _mm256_loadu_si256((const __m256i *)last + 1);
#pragma GCC unroll 4
    for (; index < last; index += STEP) {
        even = _mm256_max_epu32(even, _mm256_loadu_si256((const __m256i *)index));
        odd = _mm256_max_epu32(odd, _mm256_loadu_si256((const __m256i *)index + 1));
    }
    const __m256i four = _mm256_max_epu32(even, odd);
    const __m128i two =
        _mm_max_epu32(_mm256_castsi256_si128(four), _mm256_extracti128_si256(four, 1));
    const __m128i most = _mm_max_epu32(two, _mm_unpackhi_epi64(two, two));
    return (uint64_t)_mm_cvtsi128_si64(most) < count;
}
IN_RANGE(v3, __attribute__((target("avx2"))), all_below_v3)
#endif

int tg_in_range(const index_rows *r, const void *index)
{
    if (__builtin_expect(r->type == TG_I32, 0))
        return narrow_in_range(r, index);
#if defined(__x86_64__)
    if (TG_LIKELY(__builtin_cpu_supports("avx2")))
        return v3(r, index);
    if (__builtin_cpu_supports("sse4.2"))
        return v2(r, index);
#endif
    return base(r, index);
}

int tg_index_rows(index_rows *rows, const tg_tensor *t, int64_t count, const int64_t *ignored)
{
    const int last = t->ndim - 1;
    if (count == 0 && !ignored) /* no index is in range, and `other` would have to be one */
        return 0;
    if (t->strides && t->ndim &&
        ((t->shape[last] > 1 && t->strides[last] != 1) || !tg_even_rows(t)))
        return 0;
    const tg_rows r = tg_rows_of(t);
    const int compact = r.stride == r.n;
    *rows = (index_rows){.rows = compact ? 1 : r.rows,
                         .n = compact ? r.rows * r.n : r.n,
                         .stride = r.stride,
                         .count = (uint64_t)count,
                         .other = (uint64_t)(ignored ? *ignored : count - 1),
                         .type = r.type};
    return 1;
}

/* Element i in row-major order, whatever the strides and the type; at: its indices, as text. */
static int64_t element(const tg_tensor *t, int64_t i, char *at, size_t size)
{
    int64_t where[TG_MAX_NDIM], offset = 0;
    for (int d = t->ndim - 1; d >= 0; d--) {
        where[d] = i % t->shape[d];
        i /= t->shape[d];
        offset += where[d] * tg_stride(t, d);
    }
    size_t used = 0;
    for (int d = 0; at && d < t->ndim && used < size; d++)
        used +=
            (size_t)snprintf(at + used, size - used, "%s%lld", d ? "," : "", (long long)where[d]);
    const void *data = tg_data(t);
    return tg_type_of(t) == TG_I64   ? ((const int64_t *)data)[offset]
           : tg_type_of(t) == TG_I32 ? ((const int32_t *)data)[offset]
                                     : tg_get(data, tg_type_of(t), offset) != 0; /* of a mask */
}

tg_status tg_expect_indices_where(const char *op, const char *name, const tg_tensor *seen,
                                  int64_t count, const int64_t *ignored, const tg_tensor *mask)
{
    const tg_tensor *const t = tg_given(seen), *const where = tg_given(mask);
    if (t->device.device_type != TG_DEVICE_CPU)
        return TG_OK;
    tg_check_reads_indices(t, count, ignored);
    index_rows rows;
    const int64_t n = tg_numel(t);
    if (n == 0 || (tg_index_rows(&rows, t, count, ignored) && tg_in_range(&rows, tg_data(t))))
        return TG_OK;
    for (int64_t i = 0; i < n; i++) {
        const int64_t index = element(t, i, NULL, 0);
        if ((index >= 0 && index < count) || (ignored && index == *ignored) ||
            (where && element(where, i, NULL, 0) == 0))
            continue;
        char at[64] = "", or_ignored[48] = "";
        element(t, i, at, sizeof at);
        if (ignored)
            snprintf(or_ignored, sizeof or_ignored, " or ignore_index, which is %lld",
                     (long long)*ignored);
        return tg_fail(TG_EINVAL, "%s: %s[%s] is %lld, out of bounds: expected in [0, %lld)%s", op,
                       name, at, (long long)index, (long long)count, or_ignored);
    }
    return TG_OK;
}
