/* fused_neighborhood_attention, plainly: the definition in double precision,
 * one query at a time. */
#include <math.h>

#include "core/services.h"

typedef struct problem {
    const tg_tensor *q, *k, *v;
    int64_t batch, heads, length, d;
    int64_t dilation, half; /* a query sees so many keys on either side */
    double scale;
} problem;

static problem problem_of(const tg_tensor *q, const tg_tensor *k, const tg_tensor *v,
                          int64_t kernel_size, int64_t dilation, double scale)
{
    problem n = {.q = q, .k = k, .v = v, .scale = scale};
    n.batch = q->shape[0];
    n.heads = q->shape[1];
    n.length = q->shape[2];
    n.d = q->shape[3];
    n.dilation = dilation;
    n.half = kernel_size / 2;
    if (n.half > n.length / n.dilation)
        n.half = n.length / n.dilation; /* nobody is farther away */
    if (scale == 0)
        n.scale = n.d > 0 ? 1 / sqrt((double)n.d) : 1;
    return n;
}

/* The key at place t of query i's window, or -1 if it lies past an end of the sequence. */
static int64_t key_at(const problem *n, int64_t i, int64_t t)
{
    const int64_t j = i + (t - n->half) * n->dilation;
    return j >= 0 && j < n->length ? j : -1;
}

/* ---- rows [b,h,s,:] ---- */

static double get(const tg_tensor *t, int64_t b, int64_t h, int64_t s, int64_t d)
{
    return tg_get(tg_data(t), tg_type_of(t),
                  b * tg_stride(t, 0) + h * tg_stride(t, 1) + s * tg_stride(t, 2) + d);
}

static void set(const tg_tensor *t, int64_t b, int64_t h, int64_t s, int64_t d, double value)
{
    tg_set(tg_data(t), tg_type_of(t),
           b * tg_stride(t, 0) + h * tg_stride(t, 1) + s * tg_stride(t, 2) + d, value);
}

static double dot(const problem *n, const tg_tensor *a, int64_t i, const tg_tensor *c, int64_t j,
                  int64_t b, int64_t h)
{
    double sum = 0;
    for (int64_t d = 0; d < n->d; d++)
        sum += get(a, b, h, i, d) * get(c, b, h, j, d);
    return sum;
}

/* ---- forward ---- */

/* p = softmax over the window of query i, 0 past the ends; returns log(sum exp(score)). Scores of
 * -inf alone give p = 0. */
static double weights(const problem *n, int64_t b, int64_t h, int64_t i, double *p)
{
    double max = -INFINITY, sum = 0;
    for (int64_t t = 0; t <= 2 * n->half; t++) {
        const int64_t j = key_at(n, i, t);
        p[t] = j < 0 ? -INFINITY : n->scale * dot(n, n->q, i, n->k, j, b, h);
        max = p[t] > max ? p[t] : max;
    }
    for (int64_t t = 0; t <= 2 * n->half; t++) {
        p[t] = p[t] == -INFINITY ? 0 : exp(p[t] - max);
        sum += p[t];
    }
    for (int64_t t = 0; t <= 2 * n->half; t++)
        p[t] = sum == 0 ? 0 : p[t] / sum;
    return sum == 0 ? -INFINITY : max + log(sum);
}

static void attend(const problem *n, const tg_tensor *y, const tg_tensor *lse, int64_t b, int64_t h,
                   int64_t i, double *p)
{
    const double log_sum = weights(n, b, h, i, p);
    for (int64_t d = 0; d < n->d; d++) {
        double sum = 0;
        for (int64_t t = 0; t <= 2 * n->half; t++) {
            const int64_t j = key_at(n, i, t);
            if (j >= 0)
                sum += p[t] * get(n->v, b, h, j, d);
        }
        set(y, b, h, i, d, sum);
    }
    if (lse)
        tg_set(tg_data(lse), tg_type_of(lse), (b * n->heads + h) * n->length + i, log_sum);
}

static tg_status forward(tg_ctx *ctx, const tg_fused_neighborhood_attention_forward_args *a)
{
    const problem n = problem_of(a->q, a->k, a->v, a->kernel_size, a->dilation, a->scale);
    double *p = tg_workspace(ctx, (size_t)(2 * n.half + 1) * sizeof *p);
    if (!p)
        return TG_ENOMEM;
    for (int64_t b = 0; b < n.batch; b++)
        for (int64_t h = 0; h < n.heads; h++)
            for (int64_t i = 0; i < n.length; i++)
                attend(&n, a->y, a->lse, b, h, i, p);
    return TG_OK;
}

/* ---- backward ---- */

/* One head's gradients, [S,D], and the windows of one query. */
typedef struct scratch {
    double *dq, *dk, *dv, *p, *dp;
} scratch;

static void query_gradient(const problem *n, const tg_tensor *dy, int64_t b, int64_t h, int64_t i,
                           double lse, const scratch *w)
{
    double mean = 0; /* of dp, weighted by p */
    for (int64_t t = 0; t <= 2 * n->half; t++) {
        const int64_t j = key_at(n, i, t);
        if (j < 0)
            continue;
        w->p[t] = lse == -INFINITY ? 0 : exp(n->scale * dot(n, n->q, i, n->k, j, b, h) - lse);
        w->dp[t] = dot(n, dy, i, n->v, j, b, h);
        mean += w->p[t] * w->dp[t];
    }
    for (int64_t t = 0; t <= 2 * n->half; t++) {
        const int64_t j = key_at(n, i, t);
        if (j < 0)
            continue;
        const double ds = n->scale * w->p[t] * (w->dp[t] - mean);
        for (int64_t d = 0; d < n->d; d++) {
            w->dq[i * n->d + d] += ds * get(n->k, b, h, j, d);
            w->dk[j * n->d + d] += ds * get(n->q, b, h, i, d);
            w->dv[j * n->d + d] += w->p[t] * get(dy, b, h, i, d);
        }
    }
}

static tg_status backward(tg_ctx *ctx, const tg_fused_neighborhood_attention_backward_args *a)
{
    const problem n = problem_of(a->q, a->k, a->v, a->kernel_size, a->dilation, a->scale);
    const int64_t size = n.length * n.d, window = 2 * n.half + 1;
    double *at = tg_workspace(ctx, (size_t)(3 * size + 2 * window) * sizeof *at);
    if (!at)
        return TG_ENOMEM;
    const scratch w = {at, at + size, at + 2 * size, at + 3 * size, at + 3 * size + window};
    for (int64_t b = 0; b < n.batch; b++)
        for (int64_t h = 0; h < n.heads; h++) {
            for (int64_t i = 0; i < 3 * size; i++)
                at[i] = 0;
            for (int64_t i = 0; i < n.length; i++)
                query_gradient(
                    &n, a->dy, b, h, i,
                    tg_get(tg_data(a->lse), tg_type_of(a->lse), (b * n.heads + h) * n.length + i),
                    &w);
            for (int64_t i = 0; i < n.length; i++)
                for (int64_t d = 0; d < n.d; d++) {
                    set(a->dq, b, h, i, d, w.dq[i * n.d + d]);
                    set(a->dk, b, h, i, d, w.dk[i * n.d + d]);
                    set(a->dv, b, h, i, d, w.dv[i * n.d + d]);
                }
        }
    return TG_OK;
}

TG_REF_IMPLS(fused_neighborhood_attention) = {
    TG_REF_IMPL(fused_neighborhood_attention_forward, forward),
    TG_REF_IMPL(fused_neighborhood_attention_backward, backward), TG_IMPLS_END};
