/* fused_ce_tvd as an eager framework runs it: softmax of student and teacher, a gather for the
 * cross entropy, and the distance in elementary steps; the backward from exponentials of what was
 * saved. */
#include <math.h>

#include "eager.h"

static float *at(mat m)
{
    return m.data;
}

static void put(const tg_tensor *t, int64_t i, float value)
{
    if (t)
        ((float *)tg_data(t))[i] = value;
}

/* (d > 0) - (d < 0) */
static mat signs(eager *e, mat d)
{
    const mat positive = eager_new(e, TG_F32, d.rows, d.cols), negative = eager_like(e, positive);
    eager_scalar(e, EAGER_GREATER, positive, d, 0);
    eager_unary(e, EAGER_NEG, negative, d);
    eager_scalar(e, EAGER_GREATER, negative, negative, 0);
    eager_binary(e, EAGER_SUB, positive, positive, negative);
    eager_free(e, negative);
    return positive;
}

static mat row_sums(eager *e, mat m)
{
    const mat sums = eager_new(e, TG_F32, m.rows, 1);
    eager_reduce_rows(e, EAGER_SUM, sums, m);
    return sums;
}

/* ---- forward ---- */

/* Log-probabilities and probabilities of a row of logits, and max + log(sum). */
typedef struct softmax {
    mat log_p, p, lse;
} softmax;

static softmax softmax_of(eager *e, const tg_tensor *logits)
{
    const mat x = eager_rows(logits);
    softmax s;
    mat sum;
    s.log_p = eager_log_softmax(e, x, 1, &sum);
    s.p = eager_like(e, s.log_p);
    s.lse = eager_new(e, TG_F32, x.rows, 1);
    eager_unary(e, EAGER_EXP, s.p, s.log_p);
    eager_reduce_rows(e, EAGER_MAX, s.lse, x);
    eager_unary(e, EAGER_LOG, sum, sum);
    eager_binary(e, EAGER_ADD, s.lse, s.lse, sum);
    return s;
}

static tg_status forward(tg_ctx *ctx, const tg_fused_ce_tvd_forward_args *a)
{
    eager e = eager_begin(ctx);
    const softmax s = softmax_of(&e, a->student), t = softmax_of(&e, a->teacher);
    const mat logs = eager_less(&e, s.log_p, t.log_p), distance = eager_less(&e, s.p, t.p);
    const mat sign = signs(&e, logs);
    eager_binary(&e, EAGER_MUL, sign, sign, s.p);
    eager_unary(&e, EAGER_ABS, distance, distance);
    const mat tvd = row_sums(&e, distance), sigma = row_sums(&e, sign);
    const row_labels labels = labels_of(a->target, a->ignore_index);
    for (int64_t r = 0; !e.status && r < s.p.rows; r++) {
        const int none = row_ignored(labels, r);
        const float nan = 0 * at(tvd)[r]; /* the sign of NaN is 0 */
        put(a->ce, r, none ? 0 : -at(s.log_p)[r * s.log_p.stride + labels.of[r]]);
        put(a->tvd, r, none ? 0 : at(tvd)[r] / 2);
        put(a->sigma, r, none ? 0 : at(sigma)[r] + nan);
        put(a->student_lse, r, none ? 0 : at(s.lse)[r]);
        put(a->teacher_lse, r, none ? 0 : at(t.lse)[r]);
    }
    return eager_end(&e);
}

/* ---- backward ---- */

static mat wide(eager *e, const tg_tensor *t)
{
    return eager_wide(e, eager_rows(t));
}

/* dce (p - [i = y]) */
static mat of_ce(eager *e, const tg_fused_ce_tvd_backward_args *a, mat log_p, mat p)
{
    const row_labels labels = labels_of(a->target, a->ignore_index);
    const mat d = eager_like(e, p);
    eager_unary(e, EAGER_COPY, d, p);
    for (int64_t r = 0; !e->status && r < p.rows; r++)
        if (!row_ignored(labels, r)) {
            const int64_t i = r * d.stride + labels.of[r];
            at(d)[i] = expm1f(at(log_p)[i]);
        }
    eager_binary(e, EAGER_MUL, d, d, eager_column(a->dce));
    return d;
}

/* dtvd / 2 p (sign - sigma) */
static mat of_tvd(eager *e, const tg_fused_ce_tvd_backward_args *a, mat x, mat p)
{
    const mat apart = eager_less(e, eager_column(a->student_lse), eager_column(a->teacher_lse));
    const mat difference = eager_less(e, x, wide(e, a->teacher));
    eager_binary(e, EAGER_SUB, difference, difference, apart);
    const mat d = signs(e, difference);
    eager_binary(e, EAGER_SUB, d, d, eager_column(a->sigma));
    eager_binary(e, EAGER_MUL, d, d, p);
    eager_binary(e, EAGER_MUL, d, d, eager_column(a->dtvd));
    eager_scalar(e, EAGER_MUL, d, d, 0.5);
    return d;
}

static tg_status backward(tg_ctx *ctx, const tg_fused_ce_tvd_backward_args *a)
{
    eager e = eager_begin(ctx);
    const mat x = wide(&e, a->student), log_p = eager_new(&e, TG_F32, x.rows, x.cols);
    const mat p = eager_like(&e, log_p), sum = eager_like(&e, log_p), out = eager_rows(a->dstudent);
    eager_binary(&e, EAGER_SUB, log_p, x, eager_column(a->student_lse));
    eager_unary(&e, EAGER_EXP, p, log_p);
    eager_fill(&e, sum, 0);
    if (a->dce)
        eager_binary(&e, EAGER_ADD, sum, sum, of_ce(&e, a, log_p, p));
    if (a->dtvd)
        eager_binary(&e, EAGER_ADD, sum, sum, of_tvd(&e, a, x, p));
    eager_unary(&e, EAGER_COPY, out, sum);
    eager_drop_rows(&e, labels_of(a->target, a->ignore_index), out);
    return eager_end(&e);
}

UNFUSED_IMPLS(fused_ce_tvd) = {UNFUSED_IMPL(fused_ce_tvd_forward, forward),
                               UNFUSED_IMPL(fused_ce_tvd_backward, backward), TG_IMPLS_END};
