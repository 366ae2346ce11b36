/* flash_attention, plainly: the definition in double precision, one query at a time. */
#include <math.h>

#include "core/services.h"

typedef struct problem {
    const tg_tensor *q, *k, *v;
    int64_t batch, queries, keys, heads, key_heads, d;
    double scale;
    int64_t causal;
} problem;

static problem problem_of(const tg_tensor *q, const tg_tensor *k, const tg_tensor *v, double scale,
                          int64_t causal)
{
    problem n = {.q = q, .k = k, .v = v, .scale = scale, .causal = causal};
    n.batch = q->shape[0];
    n.queries = q->shape[1];
    n.keys = k->shape[1];
    n.heads = q->shape[2];
    n.key_heads = k->shape[2];
    n.d = q->shape[3];
    if (scale == 0)
        n.scale = n.d > 0 ? 1 / sqrt((double)n.d) : 1;
    return n;
}

/* The key head that query head h reads. */
static int64_t key_head(const problem *n, int64_t h)
{
    return h / (n->heads / n->key_heads);
}

/* Number of keys that query i sees. */
static int64_t seen(const problem *n, int64_t i)
{
    const int64_t last = i + n->keys - n->queries;
    if (!n->causal)
        return n->keys;
    return last < 0 ? 0 : last + 1;
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

/* All rows of one head, [S,D]. */
static void load_head(const tg_tensor *t, int64_t b, int64_t h, double *rows)
{
    for (int64_t s = 0; s < t->shape[1]; s++)
        load(t, b, s, h, rows + s * t->shape[3]);
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

/* ---- forward ---- */

/* y = softmax(scale q k^T) v of one query that sees `keys` keys; returns log(sum exp(score)) */
static double attend(const problem *n, const double *q, const double *k, const double *v,
                     int64_t keys, double *p, double *y)
{
    double max = -INFINITY, sum = 0;
    for (int64_t j = 0; j < keys; j++) {
        p[j] = n->scale * dot(q, k + j * n->d, n->d);
        max = p[j] > max ? p[j] : max;
    }
    clear(y, n->d);
    for (int64_t j = 0; j < keys; j++) {
        /* scores of -inf alone are as good as no key; a score that is no number stays one */
        p[j] = p[j] == -INFINITY ? 0 : exp(p[j] - max);
        sum += p[j];
        add_scaled(y, p[j], v + j * n->d, n->d);
    }
    for (int64_t d = 0; d < n->d; d++)
        y[d] = sum == 0 ? 0 : y[d] / sum;
    return sum == 0 ? -INFINITY : max + log(sum);
}

static tg_status forward(tg_ctx *ctx, const tg_flash_attention_forward_args *a)
{
    const problem n = problem_of(a->q, a->k, a->v, a->scale, a->causal);
    double *k = tg_workspace(ctx, (size_t)(2 * (n.keys + 1) * n.d + n.keys) * sizeof *k);
    if (!k)
        return TG_ENOMEM;
    double *v = k + n.keys * n.d, *q = v + n.keys * n.d, *y = q + n.d, *p = y + n.d;
    for (int64_t b = 0; b < n.batch; b++)
        for (int64_t h = 0; h < n.heads; h++) {
            load_head(n.k, b, key_head(&n, h), k);
            load_head(n.v, b, key_head(&n, h), v);
            for (int64_t i = 0; i < n.queries; i++) {
                load(n.q, b, i, h, q);
                const double lse = attend(&n, q, k, v, seen(&n, i), p, y);
                store(a->y, b, i, h, y);
                if (a->lse)
                    tg_set(tg_data(a->lse), tg_type_of(a->lse), (b * n.heads + h) * n.queries + i,
                           lse);
            }
        }
    return TG_OK;
}

/* ---- backward ---- */

/* Rows of one query and of all keys of a head, as doubles. */
typedef struct rows {
    double *q, *y, *dy, *dq; /* [D] */
    double *k, *v, *dk, *dv; /* [L,D] */
} rows;

/* p = exp(score - lse), ds = p (dy v - dy y) */
static void query_gradient(const problem *n, const rows *r, int64_t keys, double lse)
{
    const double product = dot(r->dy, r->y, n->d);
    clear(r->dq, n->d);
    for (int64_t j = 0; j < keys && lse != -INFINITY; j++) {
        const int64_t at = j * n->d;
        const double p = exp(n->scale * dot(r->q, r->k + at, n->d) - lse);
        const double ds = p * (dot(r->dy, r->v + at, n->d) - product) * n->scale;
        add_scaled(r->dv + at, p, r->dy, n->d);
        add_scaled(r->dk + at, ds, r->q, n->d);
        add_scaled(r->dq, ds, r->k + at, n->d);
    }
}

static void head_gradient(const problem *n, const tg_flash_attention_backward_args *a,
                          const rows *r, int64_t b, int64_t h)
{
    for (int64_t i = 0; i < n->queries; i++) {
        load(n->q, b, i, h, r->q);
        load(a->y, b, i, h, r->y);
        load(a->dy, b, i, h, r->dy);
        query_gradient(
            n, r, seen(n, i),
            tg_get(tg_data(a->lse), tg_type_of(a->lse), (b * n->heads + h) * n->queries + i));
        store(a->dq, b, i, h, r->dq);
    }
}

static tg_status backward(tg_ctx *ctx, const tg_flash_attention_backward_args *a)
{
    const problem n = problem_of(a->q, a->k, a->v, a->scale, a->causal);
    const int64_t size = n.keys * n.d;
    double *at = tg_workspace(ctx, (size_t)(4 * n.d + 4 * size) * sizeof *at);
    if (!at)
        return TG_ENOMEM;
    double *keys = at + 4 * n.d;
    const rows r = {.q = at,
                    .y = at + n.d,
                    .dy = at + 2 * n.d,
                    .dq = at + 3 * n.d,
                    .k = keys,
                    .v = keys + size,
                    .dk = keys + 2 * size,
                    .dv = keys + 3 * size};
    for (int64_t b = 0; b < n.batch; b++)
        for (int64_t hk = 0; hk < n.key_heads; hk++) {
            load_head(n.k, b, hk, r.k);
            load_head(n.v, b, hk, r.v);
            clear(r.dk, size);
            clear(r.dv, size);
            for (int64_t h = 0; h < n.heads; h++)
                if (key_head(&n, h) == hk)
                    head_gradient(&n, a, &r, b, h);
            for (int64_t j = 0; j < n.keys; j++) {
                store(a->dk, b, j, hk, r.dk + j * n.d);
                store(a->dv, b, j, hk, r.dv + j * n.d);
            }
        }
    return TG_OK;
}

TG_REF_IMPLS(flash_attention) = {TG_REF_IMPL(flash_attention_forward, forward),
                                 TG_REF_IMPL(flash_attention_backward, backward), TG_IMPLS_END};
