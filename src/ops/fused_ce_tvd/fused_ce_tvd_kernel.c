/* fused_ce_tvd on the CPU: the origins of two rows' log-probabilities, what lies between their
 * softmaxes, and the gradient. A row is read once for each; behind the first time it comes from the
 * cache. */
#include <math.h>

#include "fused_ce_tvd_cpu.h"
#include "rows/exponentials.h"

static const char *at(el e, const char *row, int64_t i)
{
    return row + i * el_size(e);
}

/* Sums in f32 are of this many elements: of rows whose classes are all equally likely, each term
 * rounds a longer one alike. */
enum { SUMMED = 512 };

static int64_t block_end(int64_t begin, int64_t n)
{
    return n - begin < SUMMED ? n : begin + SUMMED;
}

/* ---- sums of exponentials ---- */

SIMD_INLINE void sum_body(el e, const char *x, int64_t n, float max, double *sum)
{
    const vf zero = {0};
    vf a = zero;
    for (int64_t i = 0; i < n; i += VL) {
        const vf p = v_exp(exps_load(e, x, i, n, 0) - v_set(max));
        a += v_select(v_first(n - i), p, zero);
    }
    *sum += v_sum(a);
}

/* The largest stands apart from the sum, so that a confident row keeps its digits. */
cetvd_origin cetvd_sum_row(el type, const char *x, int64_t n)
{
    const int64_t best = exps_largest(type, x, n);
    const float max = el_get(type, x, best);
    double others = (double)max - max; /* NaN where there is no finite largest */
    for (int64_t begin = exps_first(best), end; begin < n; begin = exps_next(end, best)) {
        end = exps_end(begin, best, n);
        EL_SPECIALIZE(type, sum_body, at(type, x, begin), end - begin, max, &others);
    }
    return (cetvd_origin){max, log1p(others)};
}

/* ---- what lies between them ---- */

/* Logarithms of a class's probabilities: -200 stands for all below it, -inf too. */
typedef struct origins {
    vf of_student, of_teacher; /* the largest logits */
    vf log_p, log_q, apart;    /* sums; by how much the student's is larger */
} origins;

typedef struct terms {
    vf tvd, sigma;
} terms;

/* The difference of the logarithms has more digits than these where the logits nearly agree. */
SIMD_INLINE terms terms_of(const origins *o, vf student, vf teacher)
{
    const vf lowest = v_set(-200.0f), zero = {0};
    const vf x = v_max(lowest, student - o->of_student);
    const vf z = v_max(lowest, teacher - o->of_teacher);
    const vf d = (x - z) - o->apart;
    const vf2 power = v_exp_expm1(v_max(v_set(-87.0f), v_minus_abs(d)));
    const vf larger = v_exp(v_max(x - o->log_p, z - o->log_q));
    const vf above = v_select(d > zero, larger, d); /* d is 0 or NaN otherwise */
    return (terms){larger * -power.b, v_select(d < zero, -(larger * power.a), above)};
}

/* Of elements [begin, end) of a row, where the same of the next row is asked for. */
SIMD_INLINE void distance_body(el e, const cetvd_row *r, int64_t begin, int64_t end,
                               const origins *o, cetvd_distances *sums)
{
    const char *student = at(e, r->student, begin), *teacher = at(e, r->teacher, begin);
    const int64_t n = end - begin;
    const vf zero = {0};
    vf tvd = zero, sigma = zero;
    for (int64_t i = 0; i < n; i += VL) {
        const terms t = terms_of(o, exps_load(e, student, i, n, 0), exps_load(e, teacher, i, n, 0));
        tvd += v_select(v_first(n - i), t.tvd, zero);
        sigma += v_select(v_first(n - i), t.sigma, zero);
        if (r->next_student && i * el_size(e) % 64 == 0) {
            v_prefetch(at(e, r->next_student, begin + i));
            v_prefetch(at(e, r->next_teacher, begin + i));
        }
    }
    sums->tvd += v_sum(tvd);
    sums->sigma += v_sum(sigma);
}

cetvd_distances cetvd_distance(const cetvd_row *r, const cetvd_origin *student,
                               const cetvd_origin *teacher)
{
    const origins o = {v_set(student->max), v_set(teacher->max), v_set((float)student->log_sum),
                       v_set((float)teacher->log_sum),
                       v_set((float)(student->log_sum - teacher->log_sum))};
    cetvd_distances sums = {0, 0};
    for (int64_t begin = 0, end; begin < r->n; begin = end) {
        end = block_end(begin, r->n);
        EL_SPECIALIZE(r->type, distance_body, r, begin, end, &o, &sums);
    }
    return (cetvd_distances){sums.tvd / 2, sums.sigma};
}

/* ---- gradient ---- */

SIMD_INLINE void gradient_body(el e, const char *student, const char *teacher, int64_t n,
                               const cetvd_gradient *g, char *out)
{
    const vf zero = {0}, lse = v_set(g->lse), apart = v_set(g->apart);
    const vf above = v_set(g->above), below = v_set(g->below), tie = v_set(g->tie);
    for (int64_t i = 0; i < n; i += VL) {
        const vf x = exps_load(e, student, i, n, 0);
        const vf d = (x - exps_load(e, teacher, i, n, 0)) - apart;
        const vf p = v_exp(x - lse), none = v_select(p == zero, zero, d); /* 0, or NaN */
        const vf factor = v_select(d > zero, above, v_select(d < zero, below, tie + none));
        const vf dx = p * factor;
        if (n - i >= VL)
            v_store(e, out, i, dx);
        else
            v_store_n(e, out, i, n - i, dx);
    }
}

void cetvd_write_row(const cetvd_row *r, const cetvd_gradient *g, char *out)
{
    EL_SPECIALIZE(r->type, gradient_body, r->student, r->teacher, r->n, g, out);
}
