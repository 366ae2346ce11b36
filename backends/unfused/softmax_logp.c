/* softmax_logp as an eager framework runs it: log_softmax, gathers, and the entropy from
 * elementary steps in f32, and the backward of each. */
#include <math.h>

#include "eager.h"

/* The logits before and after softcap, and their log-probabilities; sum: see
 * eager_log_softmax(). */
typedef struct slogp {
    eager e;
    const int64_t *target, *ids;
    int64_t rows, n, count, ignore_index;
    double softcap, temperature;
    mat raw, x, log_p, sum;
} slogp;

#define SLOGP(ctx, a)                                                                        \
    begin(ctx, (a)->logits, (a)->target, (a)->selected_ids, (a)->ignore_index, (a)->softcap, \
          (a)->temperature)

static slogp begin(tg_ctx *ctx, const tg_tensor *logits, const tg_tensor *target,
                   const tg_tensor *ids, int64_t ignore_index, double softcap, double temperature)
{
    slogp s = {.e = eager_begin(ctx),
               .target = tg_data(target),
               .ids = tg_data(ids),
               .count = ids ? tg_numel(ids) : 0,
               .ignore_index = ignore_index,
               .softcap = softcap,
               .temperature = temperature};
    s.raw = s.x = eager_wide(&s.e, eager_rows(logits));
    s.rows = s.x.rows;
    s.n = s.x.cols;
    if (softcap > 0) {
        s.x = eager_new(&s.e, TG_F32, s.rows, s.n);
        eager_scalar(&s.e, EAGER_DIV, s.x, s.raw, softcap);
        eager_unary(&s.e, EAGER_TANH, s.x, s.x);
        eager_scalar(&s.e, EAGER_MUL, s.x, s.x, softcap);
    }
    s.log_p = eager_log_softmax(&s.e, s.x, temperature, &s.sum);
    return s;
}

static float *at(mat m)
{
    return m.data;
}

static int ignored(const slogp *s, int64_t row)
{
    return s->target[row] == s->ignore_index;
}

static mat column(slogp *s)
{
    return eager_new(&s->e, TG_F32, s->rows, 1);
}

/* sum p log p of each row */
static mat minus_entropy(slogp *s, mat p)
{
    const mat product = eager_new(&s->e, TG_F32, s->rows, s->n), sums = column(s);
    eager_binary(&s->e, EAGER_MUL, product, p, s->log_p);
    eager_reduce_rows(&s->e, EAGER_SUM, sums, product);
    eager_free(&s->e, product);
    return sums;
}

static mat probabilities(slogp *s)
{
    const mat p = eager_new(&s->e, TG_F32, s->rows, s->n);
    eager_unary(&s->e, EAGER_EXP, p, s->log_p);
    return p;
}

/* ---- forward ---- */

/* The first of the largest, which NaN is not. */
static int64_t best_of(const slogp *s, int64_t row)
{
    const float *x = at(s->raw) + row * s->raw.stride;
    int64_t best = 0;
    for (int64_t i = 1; i < s->n; i++)
        if (x[i] > x[best] || (isnan(x[best]) && !isnan(x[i])))
            best = i;
    return best;
}

static void put(const tg_tensor *t, int64_t i, float value)
{
    if (t)
        ((float *)tg_data(t))[i] = value;
}

/* lse = max / temperature + log(sum) */
static mat lse_of(slogp *s)
{
    const mat lse = column(s), log_sum = column(s);
    eager_reduce_rows(&s->e, EAGER_MAX, lse, s->x);
    eager_scalar(&s->e, EAGER_DIV, lse, lse, s->temperature);
    eager_unary(&s->e, EAGER_LOG, log_sum, s->sum);
    eager_binary(&s->e, EAGER_ADD, lse, lse, log_sum);
    return lse;
}

static mat log_sum_squares(slogp *s, mat p)
{
    const mat squares = eager_new(&s->e, TG_F32, s->rows, s->n), sums = column(s);
    eager_binary(&s->e, EAGER_MUL, squares, p, p);
    eager_reduce_rows(&s->e, EAGER_SUM, sums, squares);
    return eager_then(&s->e, EAGER_LOG, sums);
}

static tg_status forward(tg_ctx *ctx, const tg_softmax_logp_forward_args *a)
{
    slogp s = SLOGP(ctx, a);
    const mat p = probabilities(&s), lse = lse_of(&s), of_p = minus_entropy(&s, p);
    const mat squares = log_sum_squares(&s, p), mean = eager_row_mean(&s.e, s.raw);
    for (int64_t r = 0; !s.e.status && r < s.rows; r++) {
        const int none = ignored(&s, r);
        const float *log_p = at(s.log_p) + r * s.n;
        put(a->logp, r, none ? 0 : log_p[s.target[r]]);
        put(a->lse, r, none ? 0 : eager_all_minus_inf(s.x, r) ? -INFINITY : at(lse)[r]);
        put(a->entropy, r, none ? 0 : -at(of_p)[r]);
        put(a->mean_logits, r, none ? 0 : at(mean)[r]);
        put(a->log_sum_sq_probs, r, none ? 0 : at(squares)[r]);
        for (int64_t k = 0; k < s.count; k++)
            put(a->selected, r * s.count + k, none ? 0 : log_p[s.ids[k]]);
        if (a->predicted)
            ((int64_t *)tg_data(a->predicted))[r] = none ? -1 : best_of(&s, r);
    }
    return eager_end(&s.e);
}

/* ---- backward ---- */

/* The gradient of the log-probabilities: what the gathers give back. */
static mat scattered(slogp *s, const tg_softmax_logp_backward_args *a)
{
    const mat d = eager_new(&s->e, TG_F32, s->rows, s->n);
    const float *dlogp = tg_data(a->dlogp), *dselected = tg_data(a->dselected);
    eager_fill(&s->e, d, 0);
    for (int64_t r = 0; !s->e.status && r < s->rows; r++) {
        if (ignored(s, r))
            continue;
        at(d)[r * s->n + s->target[r]] += dlogp[r];
        for (int64_t k = 0; dselected && k < s->count; k++)
            at(d)[r * s->n + s->ids[k]] += dselected[r * s->count + k];
    }
    return d;
}

/* d - dentropy p (log p - sum p log p) */
static mat less_entropy(slogp *s, mat d, const tg_tensor *dentropy)
{
    const mat p = probabilities(s), sums = minus_entropy(s, p);
    const mat t = eager_new(&s->e, TG_F32, s->rows, s->n);
    eager_binary(&s->e, EAGER_SUB, t, s->log_p, sums);
    eager_binary(&s->e, EAGER_MUL, t, t, p);
    eager_binary(&s->e, EAGER_MUL, t, t, eager_column(dentropy));
    return eager_less(&s->e, d, t);
}

static mat times_slope(slogp *s, mat d)
{
    const mat slope = eager_new(&s->e, TG_F32, s->rows, s->n);
    eager_scalar(&s->e, EAGER_DIV, slope, s->raw, s->softcap);
    eager_unary(&s->e, EAGER_TANH_SLOPE, slope, slope);
    eager_binary(&s->e, EAGER_MUL, slope, slope, d);
    return slope;
}

static tg_status backward(tg_ctx *ctx, const tg_softmax_logp_backward_args *a)
{
    slogp s = SLOGP(ctx, a);
    const mat dlogits = eager_rows(a->dlogits);
    mat d = eager_log_softmax_backward(&s.e, s.log_p, s.sum, scattered(&s, a));
    if (a->dentropy)
        d = less_entropy(&s, d, a->dentropy);
    if (s.softcap > 0)
        d = times_slope(&s, d);
    eager_scalar(&s.e, EAGER_MUL, dlogits, d, a->grad_scale / s.temperature);
    for (int64_t r = 0; r < s.rows; r++)
        if (ignored(&s, r))
            eager_fill(&s.e,
                       eager_view(element_at(dlogits.data, dlogits.type, r * dlogits.stride),
                                  dlogits.type, 1, s.n, s.n),
                       0);
    return eager_end(&s.e);
}

/* All classes: what it stands for knows no slices. */
static int accepts_forward(const tg_softmax_logp_forward_args *args)
{
    return !args->vocab_size;
}

static int accepts_backward(const tg_softmax_logp_backward_args *args)
{
    return !args->vocab_size;
}

UNFUSED_IMPLS(softmax_logp) = {UNFUSED_IMPL_IF(softmax_logp_forward, accepts_forward, forward),
                               UNFUSED_IMPL_IF(softmax_logp_backward, accepts_backward, backward),
                               TG_IMPLS_END};
