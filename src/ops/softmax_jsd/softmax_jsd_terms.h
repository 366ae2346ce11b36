/* What a class adds to the sums of softmax_jsd, from its logits in both rows. */
#ifndef TG_SOFTMAX_JSD_TERMS_H
#define TG_SOFTMAX_JSD_TERMS_H

#include "softmax_jsd_cpu.h"

/* log_softmax of a row: (x - max) per_degree - log_sum */
typedef struct row_origin {
    vf max, per_degree;
    double log_sum;
} row_origin;

/* Both rows. */
typedef struct row_pair {
    row_origin student, teacher;
    vf of_student, of_teacher, apart; /* both log_sum, and by how much the teacher's is larger */
} row_pair;

static inline row_pair pair_of(row_origin x, row_origin y)
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

#endif
