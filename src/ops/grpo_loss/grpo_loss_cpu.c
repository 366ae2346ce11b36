/* selective_log_softmax on the CPU: forward reads a row once, backward reads and writes it once.
 * grpo_loss is that, through dispatch, and what grpo_loss_policy.h makes of one number a token. */
#include <float.h>

#include "grpo_loss_kernels.h"
#include "grpo_loss_policy.h"

/* BLOCK logits are summed relative to one point, `from`, the largest of the row's first block or the
 * target's logit. Only if the sum of a block exceeds RISE, more than it can if none lies above `from`,
 * the block is summed again from its own largest; if not, none lies above by more than log2 RISE. So no
 * pass looks for maxima but that over the first block. */
enum { BLOCK = 2048 };
#define RISE (2.0f * BLOCK)

#define LOG2_E 1.4426950408889634
#define LN_2 0.6931471805599453

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

/* Neighbouring rows to one worker: the end of a row asks for the start of the next. */
static int64_t rows_a_chunk(int64_t rows, int64_t n)
{
    return rows / 256 + 16384 / (n + 1) + 1;
}

static const char *element(const grpo_logits *x, int64_t b, int64_t l, int64_t i)
{
    return x->data + (grpo_row(x, b, l) + i) * el_size((el)tg_el(x->type));
}

/* ---- forward ---- */

/* The sum of 2^(x scale - from) over the row so far, without the target. */
typedef struct row_sum {
    float from;
    double others;
} row_sum;

/* The point from which differences are taken; any will do where all is -inf. */
static float point(float from)
{
    return from > -INFINITY ? from : 0;
}

static void move_origin(row_sum *r, float from)
{
    if (r->others != 0)
        r->others *= exp2((double)r->from - from);
    r->from = from;
}

static void add_block(row_sum *r, el e, const void *x, int64_t n, float scale)
{
    if (r->from == -INFINITY)
        move_origin(r, largest(e, x, n) * scale);
    float sum = power_sum(e, x, n, scale, point(r->from));
    if (sum > RISE) {
        move_origin(r, fmaxf(r->from, largest(e, x, n) * scale));
        sum = power_sum(e, x, n, scale, r->from);
    }
    r->others += sum;
}

/* The target stands apart from the sum of the others. */
static void forward_row(const job *j, int64_t b, int64_t l)
{
    const el e = (el)tg_el(j->logits.type);
    const int64_t n = j->logits.n, y = grpo_class(&j->target, b, l);
    const char *x = element(&j->logits, b, l, 0);
    const double x_y = (double)el_get(e, x, y) * j->scale;
    row_sum r = {fmaxf((float)x_y, largest(e, x, n < BLOCK ? n : BLOCK) * j->scale), 0};
    for (int64_t begin = 0; begin < n; begin += BLOCK) {
        const int64_t end = begin + BLOCK < n ? begin + BLOCK : n;
        const int cut = begin <= y && y < end;
        const int64_t parts[2][2] = {{begin, cut ? y : end}, {cut ? y + 1 : end, end}};
        for (int i = 0; i < 2; i++)
            if (parts[i][0] < parts[i][1])
                add_block(&r, e, x + parts[i][0] * el_size(e), parts[i][1] - parts[i][0], j->scale);
    }
    const double above = x_y - point(r.from), own = exp2(above);
    if (r.others < 0.01 * own) { /* p near 1: these keep their digits */
        const double base = log1p(r.others / own);
        grpo_put(&j->logp, b, l, 0 - base);
        grpo_put(&j->lse, b, l, (double)el_get(e, x, y) * j->per_temperature + base);
    } else {
        const double log_sum = log(r.others + own);
        grpo_put(&j->logp, b, l, LN_2 * above - log_sum);
        grpo_put(&j->lse, b, l, LN_2 * point(r.from) + log_sum);
    }
}

static void forward_rows(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const job *j = arg;
    for (int64_t row = begin; row < end; row++) {
        const int64_t b = row / j->length, l = row % j->length;
        if (grpo_kept(&j->mask, b, l)) {
            forward_row(j, b, l);
        } else {
            grpo_put(&j->logp, b, l, 0);
            grpo_put(&j->lse, b, l, 0);
        }
    }
}

static tg_status select_forward(tg_ctx *ctx, const tg_selective_log_softmax_forward_args *args)
{
    job j = job_of(args->logits, args->target, args->mask, args->temperature);
    j.logp = grpo_plane_of(args->logp);
    j.lse = grpo_plane_of(args->lse);
    const int64_t rows = j.batch * j.length;
    tg_parallel_for(ctx, rows, rows_a_chunk(rows, j.logits.n), forward_rows, &j);
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
    const int64_t y = grpo_class(&j->target, b, l);
    const char *x = element(&j->logits, b, l, 0);
    const double d = grpo_get(&j->dlogp, b, l, 0) * j->per_temperature;
    const float lse = (float)grpo_get(&j->lse, b, l, 0);
    if (d == 0 && isfinite(lse)) { /* a clipped token: not even read */
        zero_row(j, out);
        return;
    }
    const double log2_lse = lse * LOG2_E;
    const double logp = (double)el_get(e, x, y) * j->per_temperature - lse;
    const int size = fabs(d) > 0 && fabs(d) < INFINITY ? ilogb(d) : 0;
    const float from = (float)(log2_lse - size);
    const double factor = ldexp(-d, -size) * exp2(from - (log2_lse - size));
    gradient_row(e, j->stream, &(row_gradient){j->scale, from, (float)factor}, x, j->logits.n, out);
    /* 1 - p of the target, formed in double: the rounding of scale would tell where p is near 1 */
    el_set(e, out, y, (float)(d * -expm1(logp)));
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
    j.stream = j.logits.data != j.dlogits.data &&
               tg_streams(rows * n * (int64_t)tg_type_size(j.logits.type));
    tg_parallel_for(ctx, rows, rows_a_chunk(rows, n), backward_rows, &j);
    return TG_OK;
}

/* ---- grpo_loss ---- */

/* logp in f32, and its view for the parts. */
static tg_status make_room(tg_ctx *ctx, const tg_tensor *target, tg_tensor *logp)
{
    *logp = tg_tensor_of(NULL, TG_F32, 2, target->shape);
    logp->data = tg_workspace(ctx, (size_t)tg_numel(target) * sizeof(float) + 1);
    return logp->data ? TG_OK : TG_ENOMEM;
}

static tg_status loss_forward(tg_ctx *ctx, const tg_grpo_loss_forward_args *args)
{
    tg_tensor logp;
    TG_TRY(make_room(ctx, args->target, &logp));
    TG_TRY(tg_selective_log_softmax_forward(
        ctx, &(tg_selective_log_softmax_forward_args){.logits = args->logits,
                                                      .target = args->target,
                                                      .mask = args->mask,
                                                      .logp = &logp,
                                                      .lse = args->lse,
                                                      .temperature = args->temperature}));
    const grpo g = GRPO_OF(args);
    const grpo_plane each = grpo_plane_of(&logp);
    grpo_losses(&g, &each, args->loss, args->kl, args->clipped);
    return TG_OK;
}

/* logp again, from the saved lse. */
static void gather(const grpo *g, const tg_grpo_loss_backward_args *args, const grpo_plane *logp)
{
    const grpo_logits x = grpo_logits_of(args->logits);
    const grpo_plane target = grpo_plane_of(args->target), lse = grpo_plane_of(args->lse);
    for (int64_t b = 0; b < g->batch; b++)
        for (int64_t l = 0; l < g->length; l++) {
            if (!grpo_kept(&g->mask, b, l))
                continue;
            const int64_t at = grpo_row(&x, b, l) + grpo_class(&target, b, l);
            grpo_put(logp, b, l,
                     tg_get(x.data, x.type, at) / args->temperature - grpo_get(&lse, b, l, 0));
        }
}

static tg_status loss_backward(tg_ctx *ctx, const tg_grpo_loss_backward_args *args)
{
    tg_tensor logp;
    TG_TRY(make_room(ctx, args->target, &logp));
    const grpo g = GRPO_OF(args);
    const grpo_plane each = grpo_plane_of(&logp);
    gather(&g, args, &each);
    grpo_gradients(&g, &each, args->dloss);
    return tg_selective_log_softmax_backward(
        ctx, &(tg_selective_log_softmax_backward_args){.logits = args->logits,
                                                       .target = args->target,
                                                       .mask = args->mask,
                                                       .lse = args->lse,
                                                       .dlogp = &logp,
                                                       .dlogits = args->dlogits,
                                                       .temperature = args->temperature});
}

/* ---- rows ---- */

/* Logits over a tiny temperature overflow f32: those are for ref. */
static int in_range(const tg_tensor *logits, double temperature)
{
    return tg_fast_type(logits) && temperature >= 0x1p-64;
}

static int accepts_select_forward(const tg_selective_log_softmax_forward_args *args)
{
    return in_range(args->logits, args->temperature);
}

static int accepts_select_backward(const tg_selective_log_softmax_backward_args *args)
{
    return in_range(args->logits, args->temperature);
}

static int accepts_loss_forward(const tg_grpo_loss_forward_args *args)
{
    return tg_fast_type(args->logits);
}

static int accepts_loss_backward(const tg_grpo_loss_backward_args *args)
{
    return tg_fast_type(args->logits);
}

TG_CPU_ROWS(grpo_loss) = {
    TG_CPU_ROW(selective_log_softmax_forward, accepts_select_forward, select_forward),
    TG_CPU_ROW(selective_log_softmax_backward, accepts_select_backward, select_backward),
    TG_CPU_ROW(grpo_loss_forward, accepts_loss_forward, loss_forward),
    TG_CPU_ROW(grpo_loss_backward, accepts_loss_backward, loss_backward), TG_ROWS_END};
