/* flash_attention, plainly: the definition in double precision, one query at a time. */
#include <math.h>

#include "core/services.h"

/* Element [b,s,h,d] of a tensor of four dimensions. */
static int64_t place(const tg_tensor *t, int64_t b, int64_t s, int64_t h)
{
    return b * tg_stride(t, 0) + s * tg_stride(t, 1) + h * tg_stride(t, 2);
}

static double get(const tg_tensor *t, int64_t b, int64_t s, int64_t h, int64_t d)
{
    return tg_get(tg_data(t), tg_type_of(t), place(t, b, s, h) + d);
}

static void set(const tg_tensor *t, int64_t b, int64_t s, int64_t h, int64_t d, double value)
{
    tg_set(tg_data(t), tg_type_of(t), place(t, b, s, h) + d, value);
}

typedef struct problem {
    const tg_tensor *q, *k, *v;
    int64_t batch, queries, keys, heads, group, d;
    double scale;
    int64_t causal;
} problem;

static problem problem_of(const tg_tensor *q, const tg_tensor *k, const tg_tensor *v, double scale,
                          int64_t causal)
{
    const int64_t d = q->shape[3], key_heads = k->shape[2];
    if (scale == 0)
        scale = d > 0 ? 1 / sqrt((double)d) : 1;
    return (problem){q,           k,           v,           q->shape[0],
                     q->shape[1], k->shape[1], q->shape[2], key_heads ? q->shape[2] / key_heads : 1,
                     d,           scale,       causal};
}

/* Number of keys that query i sees. */
static int64_t seen(const problem *n, int64_t i)
{
    const int64_t last = i + n->keys - n->queries;
    if (!n->causal)
        return n->keys;
    return last < 0 ? 0 : last + 1;
}

static double score(const problem *n, int64_t b, int64_t i, int64_t h, int64_t j)
{
    double sum = 0;
    for (int64_t d = 0; d < n->d; d++)
        sum += get(n->q, b, i, h, d) * get(n->k, b, j, h / n->group, d);
    return n->scale * sum;
}

/* ---- forward ---- */

/* p[j] = exp(score_j - max); returns log(sum exp(score)) */
static double exponentials(const problem *n, int64_t b, int64_t i, int64_t h, double *p)
{
    const int64_t keys = seen(n, i);
    double max = -INFINITY, sum = 0;
    for (int64_t j = 0; j < keys; j++) {
        p[j] = score(n, b, i, h, j);
        max = p[j] > max ? p[j] : max;
    }
    for (int64_t j = 0; j < keys; j++) {
        /* scores of -inf alone are as good as no key; a score that is no number stays one */
        p[j] = p[j] == -INFINITY ? 0 : exp(p[j] - max);
        sum += p[j];
    }
    return sum == 0 ? -INFINITY : max + log(sum);
}

static tg_status forward(tg_ctx *ctx, const tg_flash_attention_forward_args *a)
{
    const problem n = problem_of(a->q, a->k, a->v, a->scale, a->causal);
    double *p = tg_workspace(ctx, (size_t)n.keys * sizeof *p);
    if (!p)
        return TG_ENOMEM;
    for (int64_t b = 0; b < n.batch; b++)
        for (int64_t h = 0; h < n.heads; h++)
            for (int64_t i = 0; i < n.queries; i++) {
                const double lse = exponentials(&n, b, i, h, p);
                double sum = 0;
                for (int64_t j = 0; j < seen(&n, i); j++)
                    sum += p[j];
                for (int64_t d = 0; d < n.d; d++) {
                    double y = 0;
                    for (int64_t j = 0; j < seen(&n, i); j++)
                        y += p[j] * get(n.v, b, j, h / n.group, d);
                    set(a->y, b, i, h, d, lse == -INFINITY ? 0 : y / sum);
                }
                if (a->lse)
                    tg_set(tg_data(a->lse), tg_type_of(a->lse), (b * n.heads + h) * n.queries + i,
                           lse);
            }
    return TG_OK;
}

/* ---- backward ---- */

typedef struct sums {
    double *dq;      /* [D] of one query */
    double *dk, *dv; /* [L,D] of one key head */
} sums;

/* p = exp(score - lse), ds = p (dy v - dy y), and what follows for one query */
static void query_gradient(const problem *n, const tg_flash_attention_backward_args *a,
                           const sums *g, int64_t b, int64_t i, int64_t h)
{
    const double lse =
        tg_get(tg_data(a->lse), tg_type_of(a->lse), (b * n->heads + h) * n->queries + i);
    double product = 0;
    for (int64_t d = 0; d < n->d; d++) {
        product += get(a->dy, b, i, h, d) * get(a->y, b, i, h, d);
        g->dq[d] = 0;
    }
    for (int64_t j = 0; j < seen(n, i) && lse != -INFINITY; j++) {
        const double p = exp(score(n, b, i, h, j) - lse);
        double dp = 0;
        for (int64_t d = 0; d < n->d; d++)
            dp += get(a->dy, b, i, h, d) * get(n->v, b, j, h / n->group, d);
        const double ds = p * (dp - product) * n->scale;
        for (int64_t d = 0; d < n->d; d++) {
            g->dq[d] += ds * get(n->k, b, j, h / n->group, d);
            g->dk[j * n->d + d] += ds * get(n->q, b, i, h, d);
            g->dv[j * n->d + d] += p * get(a->dy, b, i, h, d);
        }
    }
    for (int64_t d = 0; d < n->d; d++)
        set(a->dq, b, i, h, d, g->dq[d]);
}

static void key_head_gradient(const problem *n, const tg_flash_attention_backward_args *a,
                              const sums *g, int64_t b, int64_t hk)
{
    for (int64_t i = 0; i < n->keys * n->d; i++)
        g->dk[i] = g->dv[i] = 0;
    for (int64_t h = hk * n->group; h < (hk + 1) * n->group; h++)
        for (int64_t i = 0; i < n->queries; i++)
            query_gradient(n, a, g, b, i, h);
    for (int64_t j = 0; j < n->keys; j++)
        for (int64_t d = 0; d < n->d; d++) {
            set(a->dk, b, j, hk, d, g->dk[j * n->d + d]);
            set(a->dv, b, j, hk, d, g->dv[j * n->d + d]);
        }
}

static tg_status backward(tg_ctx *ctx, const tg_flash_attention_backward_args *a)
{
    const problem n = problem_of(a->q, a->k, a->v, a->scale, a->causal);
    double *memory = tg_workspace(ctx, (size_t)(n.d + 2 * n.keys * n.d) * sizeof *memory);
    if (!memory)
        return TG_ENOMEM;
    const sums g = {memory, memory + n.d, memory + n.d + n.keys * n.d};
    for (int64_t b = 0; b < n.batch; b++)
        for (int64_t hk = 0; hk < a->k->shape[2]; hk++)
            key_head_gradient(&n, a, &g, b, hk);
    return TG_OK;
}

TG_REF_ROWS(flash_attention) = {TG_REF_ROW(flash_attention_forward, forward),
                                TG_REF_ROW(flash_attention_backward, backward), TG_ROWS_END};
