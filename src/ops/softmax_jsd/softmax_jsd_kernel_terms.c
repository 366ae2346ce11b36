/* What the classes of a row are to the loss and to the gradient of softmax_jsd, from the logarithms
 * of their two probabilities, and what that adds up to.
 */
#include <math.h>

#include "side_by_side.h"
#include "softmax_jsd_cpu.h"

/* Logarithms of a class's probabilities, and by how much the teacher's is larger: of logits that
 * nearly agree to more digits than the logarithms have. */
typedef struct class_logs {
    vf x, y, d;
} class_logs;

/* From what is left of logits without the largest ones. */
SIMD_INLINE class_logs logs_of(const log_sums *of, vf student, vf teacher)
{
    return (class_logs){student - v_set(of->student), teacher - v_set(of->teacher),
                        (teacher - student) - v_set(of->apart)};
}

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

/* z p(z), p a polynomial of degree 8, for two vectors: odd and even powers side by side. */
SIMD_INLINE void by_series(const float p[9], const vf *z, vf *result)
{
    vf square[2], odd[2], even[2];
    V_EACH(2) square[k] = z[k] * z[k];
    V_EACH(2) odd[k] = v_set(p[7]);
    V_EACH(2) even[k] = v_set(p[8]) * square[k] + v_set(p[6]);
#pragma GCC unroll 4
    for (int i = 5; i > 0; i -= 2) {
        V_EACH(2) odd[k] = odd[k] * square[k] + v_set(p[i]);
        V_EACH(2) even[k] = even[k] * square[k] + v_set(p[i - 1]);
    }
    V_EACH(2) result[k] = z[k] * (odd[k] * z[k] + even[k]);
}

/* -log(1 + u / 2) for u in [-1, 0], and -log(1 + t) for t in [0, 1], or NaN: minimax, relative
 * errors 3.0e-8. */
static const float minus_log_half[9] = {-0.5f,
                                        0.125f,
                                        -0.0416792631149292f,
                                        0.015415643341839314f,
                                        -0.007555767893791199f,
                                        -0.001443274668417871f,
                                        -0.007879965007305145f,
                                        -0.005479129031300545f,
                                        -0.002538924105465412f};
static const float minus_log_next[9] = {
    -0.999999940395355225f,  0.499994933605194092f,  -0.333190977573394775f,
    0.248429819941520691f,   -0.191060066223144531f, 0.136632457375526428f,
    -0.0782259479165077209f, 0.0295052379369735718f, -0.00523269409313797951f};

/* The same where both weights are 1/2, for two vectors; of what is not asked for nothing is
 * computed. With E the larger probability, t = exp(n) the smaller one over E, u = t - 1 and h = log
 * E - log M the loss over E is half of h + t (n + h), and is given twice. Where t is not small its
 * terms cancel: it is u (n + h) + (2 h + n), whose terms are exact. less: slopes are given less
 * log 2, which leaves -log(1 + t) of the larger one's h. */
SIMD_INLINE void even_terms(const class_logs *c, int loss, int gradient, int less, row_term *term)
{
    const vf zero = v_set(0.0f), smallest = v_set(-87.0f), one = v_set(1.0f);
    vf n[2], t[2], u[2], h[2], larger[2], apart[2];
    vf2 power[2];
    V_EACH(2) n[k] = v_max(smallest, v_minus_abs(c[k].d));
    V_EACH(2) larger[k] = v_max(c[k].x, c[k].y);
    v_exp_expm1_each(2, n, power);
    v_exp_scaled_each(2, larger, (float)(1 / UNIT), larger);
    V_EACH(2) t[k] = power[k].a;
    V_EACH(2) u[k] = power[k].b;
    if (loss) {
        by_series(minus_log_half, u, h);
        V_EACH(2) apart[k] = n[k] + h[k];
        V_EACH(2)
        {
            const vf near = u[k] * apart[k] + (h[k] + apart[k]), far = t[k] * apart[k] + h[k];
            term[k].loss = larger[k] * v_select(n[k] < -one, far, near);
            term[k].more = (vf)((vu)(larger[k] * u[k]) ^ (~(vu)c[k].d & 0x80000000u));
        }
    }
    if (gradient) {
        if (less)
            by_series(minus_log_next, t, h);
        else if (!loss)
            by_series(minus_log_half, u, h);
        V_EACH(2) term[k].slope = h[k] + v_if_negative(c[k].d, zero, n[k]);
        V_EACH(2)
        {
            const vf q = larger[k] * v_if_negative(c[k].d, one, t[k]);
            term[k].q = v_select(c[k].x < smallest, zero, q);
        }
    }
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

/* Of two vectors. What is asked for: even_terms. */
SIMD_INLINE void terms_of(divergence_kind kind, const class_logs *c, const row_options *o, int loss,
                          int gradient, float from, int less, row_term *term)
{
    if (kind == KIND_EVEN)
        even_terms(c, loss, gradient, less, term);
    else
        V_EACH(2) term[k] = term_of(kind, c[k], o, v_set(from));
}

/* ---- sums ---- */

SIMD_INLINE float slope_of(divergence_kind kind, class_logs c, const row_options *o, float from)
{
    const class_logs twice[2] = {c, c};
    row_term term[2];
    terms_of(kind, twice, o, 0, 1, from, from != 0, term);
    return term[0].slope[0];
}

SIMD_INLINE void set_middle(divergence_kind kind, const row_options *o, const row_pair *p,
                            row_sums *sums)
{
    const float log_rest = o->mixture.log_rest;
    const int64_t best = row_largest(&p->student);
    const class_logs c = logs_of(&p->of, v_set(row_shifted(&p->student, best)),
                                 v_set(row_shifted(&p->teacher, best)));
    sums->from = 0;
    sums->middle = slope_of(kind, c, o, 0);
    if (!is_mixture(kind) || !(sums->middle > -0.5f * log_rest))
        return;
    sums->from = -log_rest;
    sums->middle = slope_of(kind, c, o, sums->from);
}

/* Of classes in f32; loss, gradient, less: constants, as even_terms takes them. */
SIMD_INLINE void add_block(divergence_kind kind, int loss, int gradient, int less,
                           const row_options *o, const row_pair *p, int64_t first, int64_t n,
                           const float *student, const float *teacher, row_sums *sums)
{
    const vf middle = v_set(sums->middle), zero = v_set(0.0f);
    const log_sums of = p->of;
    vf losses[2] = {zero, zero}, q[2] = {zero, zero}, slope[2] = {zero, zero},
       more[2] = {zero, zero};
    for (int64_t i = 0; i < n; i += V_PAIR) {
        class_logs c[2];
        row_term t[2];
        V_EACH(2)
        c[k] =
            logs_of(&of, v_load(EL_F32, student, i + k * VL), v_load(EL_F32, teacher, i + k * VL));
        terms_of(kind, c, o, loss, gradient, sums->from, less, t);
        if (loss) {
            V_EACH(2) losses[k] += t[k].loss;
            V_EACH(2) more[k] += t[k].more;
        }
        if (gradient) {
            V_EACH(2) q[k] += t[k].q;
            V_EACH(2) slope[k] += t[k].q * (t[k].slope - middle);
            V_EACH(2) v_store(EL_F32, p->slopes, first + i + k * VL, t[k].slope);
            V_EACH(2) v_store(EL_F32, p->q, first + i + k * VL, t[k].q);
        }
        if (p->next.student) {
            v_prefetch2(p->student.type, p->next.student, first + i);
            v_prefetch2(p->student.type, p->next.teacher, first + i);
        }
    }
    sums->loss += v_sum(losses[0] + losses[1]) * (kind == KIND_EVEN ? 0.5 : 1);
    sums->q += v_sum(q[0] + q[1]);
    sums->slope += v_sum(slope[0] + slope[1]);
    sums->more += v_sum(more[0] + more[1]);
}

SIMD_INLINE void add_blocks(divergence_kind kind, int loss, int gradient, int less,
                            const row_options *o, const row_pair *p, row_sums *sums)
{
    float student[BLOCK], teacher[BLOCK];
    for (int64_t first = 0, all = padded(p->student.n); first < all; first += BLOCK) {
        const int64_t end = block_end(first, all);
        row_shift(&p->student, first, end, student);
        row_shift(&p->teacher, first, end, teacher);
        add_block(kind, loss, gradient, less, o, p, first, end - first, student, teacher, sums);
    }
}

SIMD_INLINE void add_terms(divergence_kind kind, int loss, int gradient, const row_options *o,
                           const row_pair *p, row_sums *sums)
{
    if (gradient && p->student.n > 0) /* a row of no class may lie nowhere */
        set_middle(kind, o, p, sums);
    if (kind == KIND_EVEN && gradient && sums->from != 0)
        add_blocks(kind, loss, gradient, 1, o, p, sums);
    else
        add_blocks(kind, loss, gradient, 0, o, p, sums);
}

static void add_even_terms(const row_options *o, const row_pair *p, row_sums *sums)
{
    if (!o->gradient)
        add_terms(KIND_EVEN, 1, 0, o, p, sums);
    else if (!o->loss)
        add_terms(KIND_EVEN, 0, 1, o, p, sums);
    else
        add_terms(KIND_EVEN, 1, 1, o, p, sums);
}

row_sums row_terms(const row_options *o, const row_pair *p)
{
    row_sums all = {0}, *sums = &all;
    if (o->kind == KIND_EVEN)
        add_even_terms(o, p, sums);
    else if (o->kind == KIND_MODERATE)
        add_terms(KIND_MODERATE, 1, 1, o, p, sums);
    else if (o->kind == KIND_MIXTURE)
        add_terms(KIND_MIXTURE, 1, 1, o, p, sums);
    else if (o->kind == KIND_FORWARD)
        add_terms(KIND_FORWARD, 1, 1, o, p, sums);
    else
        add_terms(KIND_REVERSE, 1, 1, o, p, sums);
    return all;
}
