/* One row of softmax_jsd: from the logits of student and teacher to the loss and to the gradient of
 * the student's logits. Both rows are read three times: for the largest logits, the sums of
 * exponentials, and the terms of all classes. What the gradient is made of is kept in f32 until its
 * sum is known. All of that stays in the second-level cache, and the next rows are on their way
 * there.
 */
#include <math.h>

#include "side_by_side.h"
#include "softmax_jsd_cpu.h"

/* The sum of q (slope - middle). */
static double sum_slopes(const float *slopes, const float *q, int64_t n, vf middle)
{
    double sum = 0;
    for (int64_t first = 0; first < n; first += BLOCK) {
        const int64_t end = block_end(first, n);
        vf part[2] = {v_set(0.0f), v_set(0.0f)};
        for (int64_t i = first; i < end; i += V_PAIR) {
            const vf2 a = v_get2(slopes + i), b = v_get2(q + i);
            part[0] += b.a * (a.a - middle);
            part[1] += b.b * (a.b - middle);
        }
        sum += v_sum(part[0] + part[1]);
    }
    return sum;
}

/* Where no class has most of the probability nearly all slopes may lie next to each other and far
 * from that of the likeliest: of a student that hardly knows anything beside a sure teacher. What
 * is left of them without their mean is then small beside the mean. So that becomes the middle, and
 * a second sum finds by what it is off. */
static void center(const row_pair *p, row_sums *sums)
{
    const float middle = sums->middle + (float)(sums->slope / sums->q);
    if (!(p->of.student > 0.5f) || !isfinite(middle))
        return;
    sums->middle = middle;
    sums->slope = sum_slopes(p->slopes, p->q, padded(p->student.n), v_set(middle));
}

/* ---- the gradient ---- */

typedef struct writing {
    vf middle, mean, scale, floor;
} writing;

SIMD_INLINE vf2 gradient_of(divergence_kind kind, const float *slopes, const float *q,
                            const writing *w)
{
    const vf2 slope = v_get2(slopes), p = v_get2(q);
    vf d[2] = {slope.a - p.a * w->mean, slope.b - p.b * w->mean};
    if (kind != KIND_FORWARD) {
        d[0] = p.a * (slope.a - w->middle - w->mean);
        d[1] = p.b * (slope.b - w->middle - w->mean);
    }
    V_EACH(2) d[k] = v_select(v_abs(d[k]) < w->floor, v_set(0.0f), d[k]) * w->scale;
    return (vf2){d[0], d[1]};
}

SIMD_INLINE void write_gradient(el e, divergence_kind kind, char *out, const float *slopes,
                                const float *q, int64_t n, const writing *given)
{
    const writing by = *given, *w = &by; /* out of reach of what the loop writes */
    int64_t i = 0;
    for (; i + V_PAIR <= n; i += V_PAIR)
        v_store2(e, out, i, gradient_of(kind, slopes + i, q + i, w));
    if (i == n)
        return;
    const vf2 d = v_natural2(e, gradient_of(kind, slopes + i, q + i, w));
    const int64_t left = v_tail(n, i);
    v_store_n(e, out, i, left, d.a);
    v_store_n(e, out, i + left, n - i - left, d.b);
}

/* What is off in all probabilities alike, as their sum of exponentials is, leaves the gradient:
 * slopes are less their mean by the q that were found; differences add up to 0 without it. */
static double common_of(divergence_kind kind, const row_sums *sums)
{
    return kind == KIND_FORWARD ? -sums->more * UNIT : sums->slope / sums->q;
}

SIMD_INLINE void write_gradients(el e, const row_options *o, char *out, const row_pair *p,
                                 const row_sums *sums)
{
    const double scale = o->scale * UNIT;
    const writing w = {v_set(sums->middle), v_set((float)common_of(o->kind, sums)),
                       v_set((float)scale), v_set((float)(o->floor / fabs(scale)))};
    if (o->kind == KIND_FORWARD)
        write_gradient(e, KIND_FORWARD, out, p->slopes, p->q, p->student.n, &w);
    else
        write_gradient(e, KIND_MIXTURE, out, p->slopes, p->q, p->student.n, &w);
}

/* Where the rows nearly agree the loss of a mixture is half of beta (1 - beta) times the square of
 * the differences of logarithms, and that of beta 0 the sum of p times these. One error of all of
 * them, that of the sums of exponentials, shows: probabilities that add up to 1 differ by nothing
 * in sum. */
static double excess(const row_options *o, double more)
{
    return o->kind == KIND_FORWARD ? more : (double)o->mixture.series[0] * more * more;
}

double run_row(const row_options *o, const char *student, const char *teacher, char *gradient,
               int64_t n, float *scratch, next_rows next)
{
    row_pair p = {.student = row_of(o, student, n),
                  .teacher = row_of(o, teacher, n),
                  .slopes = scratch,
                  .q = scratch + row_scratch(n) / 2,
                  .next = next};
    const double of_student = row_log_sum(&p.student), of_teacher = row_log_sum(&p.teacher);
    p.of = (log_sums){(float)of_student, (float)of_teacher, (float)(of_teacher - of_student)};
    row_sums sums = row_terms(o, &p);
    if (o->gradient && o->kind != KIND_FORWARD)
        center(&p, &sums);
    if (o->gradient)
        EL_SPECIALIZE(o->gradient_type, write_gradients, o, gradient, &p, &sums);
    return sums.loss * UNIT - excess(o, sums.more * UNIT);
}
