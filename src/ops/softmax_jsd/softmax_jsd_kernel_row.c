/* A row of logits of softmax_jsd: read in blocks of f32, its largest one, the sum of exponentials.
 */
#include <math.h>

#include "rows/exponentials.h"
#include "side_by_side.h"
#include "softmax_jsd_cpu.h"

/* A logit that lies further below the largest one counts as lying this far below, in degrees, -inf
 * too: so both logarithms of a mixture's classes are numbers. */
static float lowest_of(divergence_kind kind)
{
    return kind == KIND_EVEN ? -104.0f : is_mixture(kind) ? -200.0f : -INFINITY;
}

row row_of(const row_options *o, const char *x, int64_t n)
{
    return (row){o->type,       o->gradient_type,  x, n, exps_max(o->type, x, n),
                 o->per_degree, lowest_of(o->kind)};
}

/* Elements [i, i + V_PAIR) of n. */
SIMD_INLINE vf2 load_pair(el order, el e, const char *x, int64_t i, int64_t n)
{
    if (n - i >= V_PAIR)
        return v_load2(order, e, x, i);
    float end[V_PAIR];
    const int64_t left = v_tail(n, i);
    v_store(EL_F32, end, 0, v_load_n(e, x, i, left, -INFINITY));
    v_store(EL_F32, end, VL, v_load_n(e, x, i + left, n - i - left, -INFINITY));
    return v_load2(order, EL_F32, end, 0);
}

/* (x - max) per_degree, lowest at least */
SIMD_INLINE void shift_ordered(el order, el e, const row *r, int64_t first, int64_t end, float *to)
{
    const vf max = v_set(r->max), by = v_set(r->per_degree), lowest = v_set(r->lowest);
    for (int64_t i = first; i < end; i += V_PAIR) {
        const vf2 z = load_pair(order, e, r->x, i, r->n);
        v_put2(to + i - first,
               (vf2){v_max(lowest, (z.a - max) * by), v_max(lowest, (z.b - max) * by)});
    }
}

SIMD_INLINE void shift_typed(el e, const row *r, int64_t first, int64_t end, float *to)
{
    if (r->order == EL_BF16)
        shift_ordered(EL_BF16, e, r, first, end, to);
    else
        shift_ordered(EL_F32, e, r, first, end, to);
}

void row_shift(const row *r, int64_t first, int64_t end, float *to)
{
    EL_SPECIALIZE(r->type, shift_typed, r, first, end, to);
}

/* The logarithm of the sum of exponentials. The largest element stands apart from the sum, and
 * what equals it is counted apart, so that a confident row keeps its digits. */
double row_log_sum(const row *r)
{
    const vf zero = v_set(0.0f), one = v_set(1.0f), smallest = v_set(-87.0f);
    double below = 0, equal = -1; /* all but one of those that are equal to it */
    float block[BLOCK];
    for (int64_t first = 0, all = padded(r->n); first < all; first += BLOCK) {
        const int64_t end = block_end(first, all);
        vf sum[2] = {zero, zero}, ties[2] = {zero, zero};
        row_shift(r, first, end, block);
        for (int64_t i = 0; i < end - first; i += V_PAIR) {
            vf x[2], power[2];
            V_EACH(2) x[k] = v_load(EL_F32, block, i + k * VL);
            V_EACH(2) power[k] = v_max(smallest, x[k]);
            v_exp_scaled_each(2, power, 1.0f, power);
            V_EACH(2) sum[k] += v_select(x[k] == zero, zero, power[k]);
            V_EACH(2) ties[k] += v_select(x[k] == zero, one, zero);
        }
        below += v_sum(sum[0] + sum[1]);
        equal += v_sum(ties[0] + ties[1]);
    }
    return log1p(below + equal);
}

/* The first element that is the largest; 0 if there is none. */
SIMD_INLINE void find_largest(el e, const row *r, int64_t *found)
{
    const vf max = v_set(r->max), zero = v_set(0.0f), one = v_set(1.0f);
    int64_t i = 0;
    while (i + VL <= r->n && v_hmax(v_select(v_load(e, r->x, i) == max, one, zero)) == 0)
        i += VL;
    while (i < r->n && el_get(e, r->x, i) != r->max)
        i++;
    *found = i < r->n ? i : 0;
}

int64_t row_largest(const row *r)
{
    int64_t found;
    EL_SPECIALIZE(r->type, find_largest, r, &found);
    return found;
}

float row_shifted(const row *r, int64_t i)
{
    return v_max(v_set(r->lowest), v_set((el_get(r->type, r->x, i) - r->max) * r->per_degree))[0];
}
