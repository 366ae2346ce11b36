/* What a row of logits adds up to: log-probability of its target and lse. */
#ifndef TG_GRPO_LOSS_ROW_H
#define TG_GRPO_LOSS_ROW_H

#include <float.h>

#include "grpo_loss.h"
#include "grpo_loss_kernels.h"

/* BLOCK logits are summed relative to one point, `from`, the largest of the row's first block or the
 * target's logit. Only if the sum of a block exceeds RISE, more than it can if none lies above `from`,
 * the block is summed again from its own largest; if not, none lies above by more than log2 RISE. So no
 * pass looks for maxima but that over the first block. */
enum { BLOCK = 2048 };
#define RISE (2.0f * BLOCK)

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
    exponent point;
    double at;
    double others;
} row_sum;

/* Any point will do where all is -inf. */
static void move_origin(row_sum *r, float max, float scale)
{
    const double before = r->at, logit = max > -INFINITY ? max : 0;
    const int far = !(fabs(logit * scale) <= NEAR);
    r->max = max;
    r->point = (exponent){far ? (float)logit : 0, scale, far ? 0 : (float)(logit * scale)};
    r->at = far ? logit * scale : r->point.from;
    if (r->others != 0)
        r->others *= exp2(before - r->at);
}

static void add_block(row_sum *r, el e, const void *x, int64_t n, float scale)
{
    if (r->max == -INFINITY)
        move_origin(r, largest(e, x, n), scale);
    float sum = power_sum(e, x, n, &r->point);
    if (sum > RISE) {
        move_origin(r, fmaxf(r->max, largest(e, x, n)), scale);
        sum = power_sum(e, x, n, &r->point);
    }
    r->others += sum;
}

/* What a row adds up to. The target stands apart from the sum of the others, and all is relative to `at`: an offset that the
 * logits have in common costs no digits. */
typedef struct row_log {
    exponent point;
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
    move_origin(&r, fmaxf(x_y, largest(e, x, n < BLOCK ? n : BLOCK)), j->scale);
    for (int64_t begin = 0; begin < n; begin += BLOCK) {
        const int64_t end = begin + BLOCK < n ? begin + BLOCK : n;
        const int cut = begin <= y && y < end;
        const int64_t parts[2][2] = {{begin, cut ? y : end}, {cut ? y + 1 : end, end}};
        for (int i = 0; i < 2; i++)
            if (parts[i][0] < parts[i][1])
                add_block(&r, e, x + parts[i][0] * el_size(e), parts[i][1] - parts[i][0], j->scale);
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
    if (!grpo_trusts_lse(lse, q))
        return log_row(j, b, l);
    return (row_log){{0, j->scale, 0}, 0, LOG2_E * lse, logp, lse, q};
}

#endif
