/* One row of softmax_jsd: from the logits of student and teacher to the loss and to the gradient of
 * the student's logits. The row is worked on in a copy of f32, which stays in the second-level
 * cache between the passes.
 */
#include <math.h>

#include "softmax_jsd_cpu.h"

enum { BLOCK = 512 }; /* elements that are summed in f32 */

/* log_softmax of a row: (x - max) per_degree - log_sum */
typedef struct row_origin {
    vf max, per_degree;
    double log_sum;
} row_origin;

/* Copies a row as f32 and finds its largest element. NaN is never that, but shows in the sum. */
SIMD_INLINE void copy_row(el e, const char *x, float *copy, int64_t n, float *max)
{
    vf a = v_set(-INFINITY), b = a;
    int64_t i = 0;
    for (; i + 2 * VL <= n; i += 2 * VL) {
        const vf low = v_load(e, x, i), high = v_load(e, x, i + VL);
        v_ahead2(e, x, i);
        v_store(EL_F32, copy, i, low);
        v_store(EL_F32, copy, i + VL, high);
        a = v_max(low, a);
        b = v_max(high, b);
    }
    for (; i < n; i += VL) {
        const int64_t left = v_tail(n, i);
        const vf z = v_load_n(e, x, i, left, -INFINITY);
        v_store_n(EL_F32, copy, i, left, z);
        a = v_max(z, a);
    }
    *max = v_hmax(v_max(a, b));
}

/* The largest element stands apart from the sum, and what equals it is counted apart, so that a
 * confident row keeps its digits. */
static row_origin origin_of(const float *x, int64_t n, float largest, float per_degree)
{
    const vf max = v_set(largest), by = v_set(per_degree), zero = v_set(0.0f);
    const vf lowest = v_set(-200.0f);
    double below = 0, equal = -1; /* all but one of those that are equal to it */
    for (int64_t first = 0; first < n; first += BLOCK) {
        const int64_t end = first + BLOCK < n ? first + BLOCK : n;
        vf sum = zero, ties = zero;
        for (int64_t i = first; i < end; i += VL) {
            const vf z =
                end - i < VL ? v_load_n(EL_F32, x, i, end - i, -INFINITY) : v_load(EL_F32, x, i);
            const vf power = v_exp_expm1(v_max(lowest, (z - max) * by)).a; /* 1 of 0 */
            sum += v_select(z == max, zero, power);
            ties += v_select(z == max, v_set(1.0f), zero);
        }
        below += v_sum(sum);
        equal += v_sum(ties);
    }
    return (row_origin){max, by, log1p(below + equal)};
}

/* The first element equal to max; 0 if there is none. */
static int64_t find_max(const float *x, int64_t n, vf max)
{
    int64_t i = 0;
    while (i + VL <= n && v_hmax(v_select(v_load(EL_F32, x, i) == max, v_set(1), v_set(0))) == 0)
        i += VL;
    while (i < n && x[i] != max[0])
        i++;
    return i < n ? i : 0;
}

/* Both rows. */
typedef struct row_pair {
    row_origin student, teacher;
    vf of_student, of_teacher, apart; /* both log_sum, and by how much the teacher's is larger */
} row_pair;

static row_pair pair_of(row_origin x, row_origin y)
{
    return (row_pair){x, y, v_set((float)x.log_sum), v_set((float)y.log_sum),
                      v_set((float)(y.log_sum - x.log_sum))};
}

/* Logarithms of a class's probabilities, and by how much the teacher's is larger: of logits that
 * nearly agree to more digits than the logarithms have. */
typedef struct class_logs {
    vf x, y, d;
} class_logs;

SIMD_INLINE class_logs logs_of(divergence_kind kind, const row_pair *of, vf student, vf teacher)
{
    const vf lowest = v_set(-200.0f);
    vf x = (student - of->student.max) * of->student.per_degree;
    vf y = (teacher - of->teacher.max) * of->teacher.per_degree;
    if (is_mixture(kind)) { /* -200 stands for all below it, -inf too */
        x = v_max(lowest, x);
        y = v_max(lowest, y);
    }
    return (class_logs){x - of->of_student, y - of->of_teacher, (y - x) - of->apart};
}

/* Probabilities are kept in units of 2^-60, and are 0 below 2^-126. So neither they
 * nor their products with slopes are subnormal, which many would be in a sharp
 * softmax, and which are slow. */
#define UNIT 0x1p-60

SIMD_INLINE vf probability(vf log_p)
{
    return v_exp_from(log_p, v_origin_at(0.0f)) * v_set((float)(1 / UNIT));
}

/* What the gradient is made of. For a mixture, whose 1 - beta is in the scale, and for beta 1 it is
 * q (slope - sum of q slope); for beta 0 it is slope, the student's probability less the teacher's,
 * which is q. more: the teacher's probability less the student's, but for beta 1. */
typedef struct row_term {
    vf loss, q, slope, more;
} row_term;

SIMD_INLINE vf product(vf weight, vf logarithm)
{
    const vf zero = v_set(0.0f);
    return v_select(weight == zero, zero, weight * logarithm);
}

/* The slope, the student's logarithm less log M, is given less `from`, which may be -log(1 -
 * beta) exactly: then slopes of classes that the teacher hardly knows, which are nearly that,
 * keep their differences. */
SIMD_INLINE row_term mixture_term(mixture_kind kind, class_logs c, const row_options *o, vf from)
{
    const vf zero = v_set(0.0f), smallest = v_set(-87.0f), n = v_minus_abs(c.d);
    const vf2 power = v_exp_expm1(v_max(smallest, n));
    const vf larger = probability(v_max(c.x, c.y));
    const mixture m = mixture_of(kind, &o->mixture, c.d, n, power);
    const vf kept = v_select(c.x < smallest, zero, power.a), more = larger * power.b;
    return (row_term){larger * m.loss, larger * v_if_negative(c.d, v_set(1.0f), kept),
                      (v_if_negative(c.d, zero, n) - m.part) - (m.rest + from),
                      v_if_negative(c.d, more, -more)};
}

SIMD_INLINE row_term term_of(divergence_kind kind, class_logs c, const row_options *o, vf from)
{
    const vf zero = v_set(0.0f);
    if (is_mixture(kind))
        return mixture_term((mixture_kind)kind, c, o, from);
    if (kind == KIND_FORWARD) { /* q - p by its relative size */
        const vf p = probability(c.y), d = v_select(c.x == c.y, zero, c.d); /* both may be -inf */
        const vf u = v_exp_expm1(v_max(v_set(-40.0f), v_minus_abs(d))).b;
        const vf difference =
            v_if_negative(d, v_set(-1.0f), v_set(1.0f)) * (probability(v_max(c.x, c.y)) * u);
        return (row_term){product(p, d), p, difference, -difference};
    }
    const vf q = probability(c.x), slope = v_select(q == zero, q, -c.d);
    return (row_term){q * slope, q, slope, zero};
}

/* Sums over a row, in units: the losses, q, q (slope - middle), and `more`. Lanes past the end are
 * not counted. With the slope of the likeliest class for middle, a confident row keeps the
 * digits of its gradient. */
typedef struct row_sums {
    double loss, q, slope, more;
    float middle, from; /* slopes are given less `from` */
} row_sums;

SIMD_INLINE void set_middle(divergence_kind kind, const row_options *o, class_logs best,
                            row_sums *sums)
{
    const float log_rest = o->mixture.log_rest;
    sums->from = 0;
    sums->middle = term_of(kind, best, o, v_set(0.0f)).slope[0];
    if (!is_mixture(kind) || !(sums->middle > -0.5f * log_rest))
        return;
    sums->from = -log_rest;
    sums->middle = term_of(kind, best, o, v_set(sums->from)).slope[0];
}

SIMD_INLINE void add_terms(divergence_kind kind, const row_options *o, const row_pair *of,
                           float *student, float *teacher, int64_t n, row_sums *sums)
{
    const int64_t best = find_max(student, n, of->student.max);
    set_middle(kind, o, logs_of(kind, of, v_set(student[best]), v_set(teacher[best])), sums);
    const vf middle = v_set(sums->middle), from = v_set(sums->from);
    for (int64_t first = 0; first < n; first += BLOCK) {
        const int64_t end = first + BLOCK < n ? first + BLOCK : n;
        vf loss = v_set(0.0f), q = loss, slope = loss, more = loss;
        int64_t i = first;
        for (; i + VL <= end; i += VL) {
            const row_term t = term_of(
                kind, logs_of(kind, of, v_load(EL_F32, student, i), v_load(EL_F32, teacher, i)), o,
                from);
            loss += t.loss;
            q += t.q;
            slope += t.q * (t.slope - middle);
            more += t.more;
            if (o->gradient) {
                v_store(EL_F32, student, i, t.slope);
                v_store(EL_F32, teacher, i, t.q);
            }
        }
        if (i < end) {
            const int64_t left = end - i;
            const vf none = v_set(0.0f), x = v_load_n(EL_F32, student, i, left, 0.0f);
            const vf y = v_load_n(EL_F32, teacher, i, left, 0.0f);
            const row_term t = term_of(kind, logs_of(kind, of, x, y), o, from);
            loss += v_select(v_first(left), t.loss, none);
            q += v_select(v_first(left), t.q, none);
            slope += v_select(v_first(left), t.q * (t.slope - middle), none);
            more += v_select(v_first(left), t.more, none);
            if (o->gradient) {
                v_store_n(EL_F32, student, i, left, t.slope);
                v_store_n(EL_F32, teacher, i, left, t.q);
            }
        }
        sums->loss += v_sum(loss);
        sums->q += v_sum(q);
        sums->slope += v_sum(slope);
        sums->more += v_sum(more);
    }
}

/* The sum of q (slope - middle). */
static double sum_slopes(const float *slopes, const float *q, int64_t n, vf middle)
{
    double sum = 0;
    for (int64_t first = 0; first < n; first += BLOCK) {
        const int64_t end = first + BLOCK < n ? first + BLOCK : n;
        vf part = v_set(0.0f);
        for (int64_t i = first; i < end; i += VL) {
            const int64_t left = v_tail(end, i);
            part += left == VL ? v_load(EL_F32, q, i) * (v_load(EL_F32, slopes, i) - middle)
                               : v_load_n(EL_F32, q, i, left, 0.0f) *
                                     (v_load_n(EL_F32, slopes, i, left, 0.0f) - middle);
        }
        sum += v_sum(part);
    }
    return sum;
}

/* Where no class has most of the probability nearly all slopes may lie next to each other and far
 * from that of the likeliest: of a student that hardly knows anything beside a sure teacher. What
 * is left of them without their mean is then small beside the mean. So that becomes the middle, and
 * a second sum finds by what it is off. */
static void center(const row_pair *of, const float *slopes, const float *q, int64_t n,
                   row_sums *sums)
{
    const float middle = sums->middle + (float)(sums->slope / sums->q);
    if (!(of->student.log_sum > 0.5) || !isfinite(middle))
        return;
    sums->middle = middle;
    sums->slope = sum_slopes(slopes, q, n, v_set(middle));
}

SIMD_INLINE void write_gradient(el e, divergence_kind kind, char *out, const float *slopes,
                                const float *q, int64_t n, float middle, float mean, float scale,
                                float floor)
{
    for (int64_t i = 0; i < n; i += VL) {
        const int64_t left = v_tail(n, i);
        const vf slope =
            left == VL ? v_load(EL_F32, slopes, i) : v_load_n(EL_F32, slopes, i, left, 0.0f);
        const vf p = left == VL ? v_load(EL_F32, q, i) : v_load_n(EL_F32, q, i, left, 0.0f);
        vf d = kind == KIND_FORWARD ? slope - p * v_set(mean)
                                    : p * (slope - v_set(middle) - v_set(mean));
        d = v_select(v_abs(d) < v_set(floor), v_set(0.0f), d);
        if (left == VL)
            v_store(e, out, i, d * v_set(scale));
        else
            v_store_n(e, out, i, left, d * v_set(scale));
    }
}

/* What is off in all probabilities alike, as their sum of exponentials is, leaves the gradient:
 * slopes are less their mean by the q that were found; differences add up to 0 without it. */
static double common_of(divergence_kind kind, const row_sums *sums)
{
    return kind == KIND_FORWARD ? -sums->more * UNIT : sums->slope / sums->q;
}

SIMD_INLINE void write_gradients(el e, const row_options *o, char *out, const float *slopes,
                                 const float *q, int64_t n, const row_sums *sums)
{
    const double scale = o->scale * UNIT;
    const float mean = (float)common_of(o->kind, sums), floor = (float)(o->floor / fabs(scale));
    if (o->kind == KIND_FORWARD)
        write_gradient(e, KIND_FORWARD, out, slopes, q, n, sums->middle, mean, (float)scale, floor);
    else
        write_gradient(e, KIND_MIXTURE, out, slopes, q, n, sums->middle, mean, (float)scale, floor);
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
               int64_t n, float *scratch)
{
    float *slopes = scratch, *q = scratch + row_scratch(n) / 2; /* at first the logits */
    float of_student, of_teacher;
    EL_SPECIALIZE(o->type, copy_row, student, slopes, n, &of_student);
    EL_SPECIALIZE(o->type, copy_row, teacher, q, n, &of_teacher);
    const row_pair of = pair_of(origin_of(slopes, n, of_student, o->per_degree),
                                origin_of(q, n, of_teacher, o->per_degree));
    row_sums sums = {0};
    switch (o->kind) {
    case KIND_EVEN:
        add_terms(KIND_EVEN, o, &of, slopes, q, n, &sums);
        break;
    case KIND_MODERATE:
        add_terms(KIND_MODERATE, o, &of, slopes, q, n, &sums);
        break;
    case KIND_MIXTURE:
        add_terms(KIND_MIXTURE, o, &of, slopes, q, n, &sums);
        break;
    case KIND_FORWARD:
        add_terms(KIND_FORWARD, o, &of, slopes, q, n, &sums);
        break;
    case KIND_REVERSE:
        add_terms(KIND_REVERSE, o, &of, slopes, q, n, &sums);
        break;
    }
    if (o->gradient && o->kind != KIND_FORWARD)
        center(&of, slopes, q, n, &sums);
    if (o->gradient)
        EL_SPECIALIZE(o->gradient_type, write_gradients, o, gradient, slopes, q, n, &sums);
    return sums.loss * UNIT - excess(o, sums.more * UNIT);
}
