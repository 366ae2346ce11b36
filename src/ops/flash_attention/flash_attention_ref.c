/* flash_attention, plainly: the definition in double precision, one query at a time. */
#include <math.h>

#include "flash_attention.h"

typedef struct problem {
    const tg_tensor *q, *k, *v, *bias, *sinks;
    attention_mask mask;
    int64_t heads, key_heads, d, e; /* e: the width of values */
    double scale, softcap;
    tg_dropout dropout;
} problem;

#define PROBLEM(a)                                                                           \
    problem_of((a)->q, (a)->k, (a)->v, (a)->bias, (a)->sinks, ATTENTION_MASK(a), (a)->scale, \
               (a)->softcap, TG_DROPOUT(a))

static problem problem_of(const tg_tensor *q, const tg_tensor *k, const tg_tensor *v,
                          const tg_tensor *bias, const tg_tensor *sinks, attention_mask mask,
                          double scale, double softcap, tg_dropout dropout)
{
    problem n = {.q = q, .k = k, .v = v, .bias = bias, .sinks = sinks, .mask = mask};
    n.dropout = dropout;
    n.heads = q->shape[2];
    n.key_heads = k->shape[2];
    n.d = q->shape[3];
    n.e = v->shape[3];
    n.scale = scale != 0 ? scale : n.d > 0 ? 1 / sqrt((double)n.d) : 1;
    n.softcap = softcap;
    return n;
}

/* The key head that query head h reads. */
static int64_t key_head(const problem *n, int64_t h)
{
    return h / (n->heads / n->key_heads);
}

/* Row [b,s,h,:] of a tensor, to and from doubles. */
static int64_t place(const tg_tensor *t, int64_t b, int64_t s, int64_t h)
{
    return b * tg_stride(t, 0) + s * tg_stride(t, 1) + h * tg_stride(t, 2);
}

static void load(const tg_tensor *t, int64_t b, int64_t s, int64_t h, double *row)
{
    for (int64_t d = 0; d < t->shape[3]; d++)
        row[d] = tg_get(tg_data(t), tg_type_of(t), place(t, b, s, h) + d);
}

static void store(const tg_tensor *t, int64_t b, int64_t s, int64_t h, const double *row)
{
    for (int64_t d = 0; d < t->shape[3]; d++)
        tg_set(tg_data(t), tg_type_of(t), place(t, b, s, h) + d, row[d]);
}

/* All keys of a sequence, of one head. */
static void load_keys(const tg_tensor *t, const attention_sequence *s, int64_t h, double *rows)
{
    for (int64_t j = 0; j < s->keys; j++)
        load(t, s->batch, s->key + j, h, rows + j * t->shape[3]);
}

static void store_keys(const tg_tensor *t, const attention_sequence *s, int64_t h,
                       const double *rows)
{
    for (int64_t j = 0; j < s->keys; j++)
        store(t, s->batch, s->key + j, h, rows + j * t->shape[3]);
}

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static void add_scaled(double *sum, double factor, const double *a, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        sum[i] += factor * a[i];
}

static void clear(double *a, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        a[i] = 0;
}

/* ---- scores ---- */

/* A query, as its row and column of the bias say it: batch, row of the tensors, head. */
typedef struct query {
    const attention_sequence *of;
    int64_t at, head;
} query;

static double bias_of(const problem *n, const query *q, int64_t j)
{
    const tg_tensor *t = n->bias;
    if (!t)
        return 0;
    const int64_t at = q->of->batch * tg_stride(t, 0) + q->head * tg_stride(t, 1) +
                       (q->of->query + q->at) * tg_stride(t, 2) + q->of->key + j;
    return tg_get(tg_data(t), tg_type_of(t), at);
}

/* The score of a query and key j; slope: its derivative with respect to scale q . k. */
static double score_of(const problem *n, const query *q, int64_t j, double product, double *slope)
{
    const double s = n->scale * product;
    *slope = 1;
    if (n->softcap == 0)
        return s + bias_of(n, q, j);
    const double t = tanh(s / n->softcap), cosine = cosh(s / n->softcap);
    *slope = 1 / (cosine * cosine); /* 1 - t^2 */
    return n->softcap * t + bias_of(n, q, j);
}

/* What the probability of a query and key j is multiplied by. */
static double kept(const problem *n, const query *q, int64_t j)
{
    const uint32_t head = attention_head_of(q->of, n->heads, q->head);
    if (n->dropout.least == 0)
        return 1;
    const uint32_t bits = tg_dropout_kept(n->dropout, head, (uint32_t)q->at, (uint32_t)(j / 32));
    return bits >> j % 32 & 1 ? n->dropout.factor : 0;
}

static double sink_of(const problem *n, int64_t h)
{
    return n->sinks ? tg_get(tg_data(n->sinks), tg_type_of(n->sinks), h) : -INFINITY;
}

/* ---- forward ---- */

/* y = sum of p v of one query; returns log(sum exp(score)) */
static double attend(const problem *n, const query *q, const double *row, const double *k,
                     const double *v, double *p, double *y)
{
    const attention_keys seen = attention_keys_of(&n->mask, q->of, q->at);
    const double sink = sink_of(n, q->head);
    double max = sink, slope;
    for (int64_t j = seen.begin; j < seen.end; j++) {
        p[j] = score_of(n, q, j, dot(row, k + j * n->d, n->d), &slope);
        max = p[j] > max ? p[j] : max;
    }
    double sum = sink == -INFINITY ? 0 : exp(sink - max);
    clear(y, n->e);
    for (int64_t j = seen.begin; j < seen.end; j++) {
        /* scores of -inf alone are as good as no key; a score that is no number stays one */
        p[j] = p[j] == -INFINITY ? 0 : exp(p[j] - max);
        sum += p[j];
        add_scaled(y, kept(n, q, j) * p[j], v + j * n->e, n->e);
    }
    for (int64_t d = 0; d < n->e; d++)
        y[d] = sum == 0 || seen.end == 0 ? 0 : y[d] / sum;
    return sum == 0 ? -INFINITY : max + log(sum);
}

static int64_t lse_at(const problem *n, const query *q)
{
    return (q->of->batch * n->heads + q->head) * n->mask.queries + q->of->query + q->at;
}

static tg_status forward(tg_ctx *ctx, const tg_flash_attention_forward_args *a)
{
    const problem n = PROBLEM(a);
    const int64_t keys = n.mask.keys;
    double *k = tg_workspace(ctx, (size_t)((keys + 1) * (n.d + n.e) + keys) * sizeof *k);
    if (!k)
        return TG_ENOMEM;
    double *v = k + keys * n.d, *row = v + keys * n.e, *y = row + n.d, *p = y + n.e;
    for (int64_t i = 0; i < n.mask.sequences; i++) {
        const attention_sequence s = attention_sequence_at(&n.mask, i);
        for (query q = {&s, 0, 0}; q.head < n.heads; q.head++) {
            load_keys(n.k, &s, key_head(&n, q.head), k);
            load_keys(n.v, &s, key_head(&n, q.head), v);
            for (q.at = 0; q.at < s.queries; q.at++) {
                load(n.q, s.batch, s.query + q.at, q.head, row);
                const double lse = attend(&n, &q, row, k, v, p, y);
                store(a->y, s.batch, s.query + q.at, q.head, y);
                if (a->lse)
                    tg_set(tg_data(a->lse), tg_type_of(a->lse), lse_at(&n, &q), lse);
            }
        }
    }
    return TG_OK;
}

/* ---- backward ---- */

/* Rows of one query and of all keys of a head, as doubles. */
typedef struct rows {
    double *q, *y, *dy, *dq; /* [D], [E], [E], [D] */
    double *k, *v, *dk, *dv; /* [L,D], [L,E], .. */
    double *dsinks;          /* [H] */
} rows;

/* p = exp(score - lse), ds = p (m dy v - dy y), m of dropout */
static void query_gradient(const problem *n, const query *q, const rows *r, double lse)
{
    const attention_keys seen = attention_keys_of(&n->mask, q->of, q->at);
    const double sink = sink_of(n, q->head);
    clear(r->dq, n->d);
    if (lse == -INFINITY || (seen.end == 0 && sink == -INFINITY))
        return;
    const double product = seen.end ? dot(r->dy, r->y, n->e) : 0;
    r->dsinks[q->head] -= sink == -INFINITY ? 0 : exp(sink - lse) * product;
    for (int64_t j = seen.begin; j < seen.end; j++) {
        double *const dk = r->dk + j * n->d, *const dv = r->dv + j * n->e, slope;
        const double *const k = r->k + j * n->d, *const v = r->v + j * n->e;
        const double p = exp(score_of(n, q, j, dot(r->q, k, n->d), &slope) - lse);
        const double m = kept(n, q, j);
        const double ds = p * (m * dot(r->dy, v, n->e) - product) * slope * n->scale;
        add_scaled(dv, m * p, r->dy, n->e);
        add_scaled(dk, ds, r->q, n->d);
        add_scaled(r->dq, ds, k, n->d);
    }
}

static void head_gradient(const problem *n, const tg_flash_attention_backward_args *a,
                          const attention_sequence *s, int64_t h, const rows *r)
{
    for (query q = {s, 0, h}; q.at < s->queries; q.at++) {
        const int64_t at = s->query + q.at;
        load(n->q, s->batch, at, h, r->q);
        load(a->y, s->batch, at, h, r->y);
        load(a->dy, s->batch, at, h, r->dy);
        query_gradient(n, &q, r, tg_get(tg_data(a->lse), tg_type_of(a->lse), lse_at(n, &q)));
        store(a->dq, s->batch, at, h, r->dq);
    }
}

static void sequence_gradient(const problem *n, const tg_flash_attention_backward_args *a,
                              const attention_sequence *s, const rows *r)
{
    for (int64_t hk = 0; hk < n->key_heads; hk++) {
        load_keys(n->k, s, hk, r->k);
        load_keys(n->v, s, hk, r->v);
        clear(r->dk, s->keys * n->d);
        clear(r->dv, s->keys * n->e);
        for (int64_t h = 0; h < n->heads; h++)
            if (key_head(n, h) == hk)
                head_gradient(n, a, s, h, r);
        store_keys(a->dk, s, hk, r->dk);
        store_keys(a->dv, s, hk, r->dv);
    }
}

static tg_status backward(tg_ctx *ctx, const tg_flash_attention_backward_args *a)
{
    const problem n = PROBLEM(a);
    const int64_t keys = n.mask.keys, d = n.d, e = n.e;
    double *at = tg_workspace(ctx, (size_t)(2 * (keys + 1) * (d + e) + n.heads) * sizeof *at);
    if (!at)
        return TG_ENOMEM;
    rows r = {.q = at, .dq = at + d, .y = at + 2 * d, .dy = at + 2 * d + e};
    r.k = r.dy + e;
    r.v = r.k + keys * d;
    r.dk = r.v + keys * e;
    r.dv = r.dk + keys * d;
    r.dsinks = r.dv + keys * e;
    clear(r.dsinks, n.heads);
    for (int64_t i = 0; i < n.mask.sequences; i++) {
        const attention_sequence s = attention_sequence_at(&n.mask, i);
        sequence_gradient(&n, a, &s, &r);
    }
    for (int64_t h = 0; a->dsinks && h < n.heads; h++)
        tg_set(tg_data(a->dsinks), tg_type_of(a->dsinks), h, r.dsinks[h]);
    return TG_OK;
}

TG_REF_IMPLS(flash_attention) = {TG_REF_IMPL(flash_attention_forward, forward),
                                 TG_REF_IMPL(flash_attention_backward, backward), TG_IMPLS_END};
