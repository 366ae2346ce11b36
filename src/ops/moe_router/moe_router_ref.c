/* moe_router, reference: the definition, token by token, in double. */
#include <math.h>

#include "core/services.h"

static double get(const tg_tensor *t, int64_t i)
{
    return tg_get(tg_data(t), tg_type_of(t), i);
}

static void set(const tg_tensor *t, int64_t i, double value)
{
    if (t)
        tg_set(tg_data(t), tg_type_of(t), i, value);
}

static int is_kept(const tg_tensor *mask, int64_t token)
{
    return !mask || get(mask, token) != 0;
}

/* x [n] = a row of the logits */
static void read_row(const tg_rows *logits, int64_t token, double *x)
{
    for (int64_t e = 0; e < logits->n; e++)
        x[e] = tg_get(logits->data, logits->type, token * logits->stride + e);
}

/* p [n] = softmax(x); returns the logarithm of the sum of exponentials. */
static double softmax(const double *x, double *p, int64_t n)
{
    double max = -INFINITY, sum = 0;
    for (int64_t e = 0; e < n; e++)
        max = fmax(max, x[e]);
    for (int64_t e = 0; e < n; e++)
        sum += p[e] = exp(x[e] - max);
    for (int64_t e = 0; e < n; e++)
        p[e] /= sum;
    return max + log(sum);
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* ---- the choice ---- */

/* NaN counts as infinity. */
static double rank_of(double x)
{
    return isnan(x) ? INFINITY : x;
}

/* The first of the largest of x [n] among those that may be chosen; -1 if there is none. */
static int64_t largest(const double *x, const char *may, int64_t n)
{
    int64_t best = -1;
    for (int64_t i = 0; i < n; i++)
        if (may[i] && (best < 0 || rank_of(x[i]) > rank_of(x[best])))
            best = i;
    return best;
}

typedef struct chooser {
    const tg_moe_router_forward_args *a;
    int64_t experts, groups, each, kept; /* each: experts of a group */
    double *logits, *scores, *choice;    /* [experts], of a token */
    const double *by;                    /* what is compared: choice, or logits in its order */
    double *group_score;                 /* [groups] */
    char *may, *group_may;               /* [experts], [groups] */
} chooser;

/* The score of the experts [first, first + each). */
static double score_of_group(const chooser *c, int64_t first)
{
    const int64_t best = first + largest(c->by + first, c->may + first, c->each);
    if (c->a->group_score == TG_MOE_LARGEST || c->each == 1)
        return c->by[best];
    c->may[best] = 0;
    const int64_t next = first + largest(c->by + first, c->may + first, c->each);
    c->may[best] = 1;
    return c->choice[best] + c->choice[next];
}

/* Leaves the experts of the kept groups. */
static void limit_groups(const chooser *c)
{
    for (int64_t g = 0; g < c->groups; g++) {
        c->group_score[g] = score_of_group(c, g * c->each);
        c->group_may[g] = 1;
    }
    for (int64_t e = 0; e < c->experts; e++)
        c->may[e] = 0;
    for (int64_t i = 0; i < c->kept; i++) {
        const int64_t g = largest(c->group_score, c->group_may, c->groups);
        c->group_may[g] = 0;
        for (int64_t e = g * c->each; e < (g + 1) * c->each; e++)
            c->may[e] = 1;
    }
}

static void choose(const chooser *c, int64_t token)
{
    const tg_moe_router_forward_args *a = c->a;
    for (int64_t e = 0; e < c->experts; e++) {
        c->choice[e] = c->scores[e] + (a->bias ? get(a->bias, e) : 0);
        c->may[e] = 1;
    }
    if (c->kept < c->groups)
        limit_groups(c);
    for (int64_t k = 0; k < a->top_k; k++) {
        const int64_t e = largest(c->by, c->may, c->experts);
        c->may[e] = 0;
        set(a->index, token * a->top_k + k, (double)e);
    }
}

/* ---- weights ---- */

/* w [top_k]: of the chosen experts, before they are scaled. */
static void weigh(const double *logits, const double *scores, const int64_t *index, int64_t top_k,
                  int64_t scoring, int64_t renormalise, double *w)
{
    double sum = 1e-20;
    for (int64_t k = 0; k < top_k; k++)
        sum += w[k] = scores[index[k]];
    if (renormalise && scoring == TG_MOE_SOFTMAX) {
        for (int64_t k = 0; k < top_k; k++)
            w[k] = logits[index[k]];
        softmax(w, w, top_k);
    } else if (renormalise) {
        for (int64_t k = 0; k < top_k; k++)
            w[k] /= sum;
    }
}

/* ---- forward ---- */

/* What is summed over the kept tokens. */
typedef struct totals {
    double *counts, *probs; /* [experts] */
    double squares, kept;   /* of lse; tokens */
} totals;

static void add_token(totals *s, const int64_t *index, int64_t top_k, const double *p, double lse,
                      int64_t experts)
{
    for (int64_t k = 0; k < top_k; k++)
        s->counts[index[k]] += 1;
    for (int64_t e = 0; e < experts; e++)
        s->probs[e] += p[e];
    s->squares += lse * lse;
    s->kept += 1;
}

static void write_totals(const tg_moe_router_forward_args *a, const totals *s, int64_t experts)
{
    double balance = 0;
    const double n = s->kept > 0 ? s->kept : 1;
    for (int64_t e = 0; e < experts; e++) {
        set(a->counts, e, s->counts[e]);
        set(a->probs, e, s->probs[e]);
        balance += (double)experts * (s->counts[e] / n) * (s->probs[e] / n);
    }
    set(a->balance, 0, balance);
    set(a->z_loss, 0, s->squares / n);
}

static tg_status forward(tg_ctx *ctx, const tg_moe_router_forward_args *a)
{
    const tg_rows logits = tg_rows_of(a->logits);
    const int64_t n = logits.n, groups = a->groups;
    double *room = tg_workspace(ctx, (size_t)(8 * n) * sizeof *room);
    char *may = tg_workspace(ctx, (size_t)(2 * n));
    if (!room || !may)
        return TG_ENOMEM;
    const chooser c = {.a = a,
                       .experts = n,
                       .groups = groups,
                       .each = n / groups,
                       .kept = a->groups_kept ? a->groups_kept : groups,
                       .logits = room,
                       .scores = room + n,
                       .choice = room + 2 * n,
                       .by = a->bias ? room + 2 * n : room,
                       .group_score = room + 3 * n,
                       .may = may,
                       .group_may = may + n};
    double *p = room + 4 * n, *w = room + 5 * n;
    totals s = {room + 6 * n, room + 7 * n, 0, 0};
    for (int64_t e = 0; e < n; e++)
        s.counts[e] = s.probs[e] = 0;
    for (int64_t t = 0; t < logits.rows; t++) {
        const int64_t *index = (const int64_t *)tg_data(a->index) + t * a->top_k;
        read_row(&logits, t, c.logits);
        const double lse = softmax(c.logits, p, n);
        for (int64_t e = 0; e < n; e++)
            c.scores[e] = a->scoring == TG_MOE_SIGMOID ? sigmoid(c.logits[e]) : p[e];
        choose(&c, t);
        weigh(c.logits, c.scores, index, a->top_k, a->scoring, a->renormalise, w);
        for (int64_t k = 0; k < a->top_k; k++)
            set(a->weights, t * a->top_k + k, a->scale * w[k]);
        set(a->lse, t, lse);
        if (is_kept(a->mask, t))
            add_token(&s, index, a->top_k, p, lse, n);
    }
    write_totals(a, &s, n);
    return TG_OK;
}

/* ---- backward ---- */

typedef struct gradients {
    const tg_moe_router_backward_args *a;
    int64_t experts, top_k;
    double *x, *p, *d; /* [experts], of a token: logits, softmax of them, dlogits */
    double *w, *g;     /* [top_k] */
    double *c;         /* [experts]: the gradient of probs */
    double kept;       /* tokens, 1 at least */
} gradients;

/* d += what comes from the weights of the chosen experts, with softmax */
static void add_softmax(const gradients *b, const int64_t *index)
{
    double mean = 0;
    for (int64_t k = 0; k < b->top_k; k++)
        b->w[k] = b->a->renormalise ? b->x[index[k]] : b->p[index[k]];
    if (b->a->renormalise)
        softmax(b->w, b->w, b->top_k);
    for (int64_t k = 0; k < b->top_k; k++)
        mean += b->g[k] * b->w[k];
    for (int64_t k = 0; k < b->top_k; k++)
        b->d[index[k]] += b->w[k] * (b->a->renormalise ? b->g[k] - mean : b->g[k]);
    for (int64_t e = 0; !b->a->renormalise && e < b->experts; e++)
        b->d[e] -= b->p[e] * mean;
}

/* The same with the logistic function. */
static void add_sigmoid(const gradients *b, const int64_t *index)
{
    double sum = 1e-20, mean = 0;
    for (int64_t k = 0; k < b->top_k; k++)
        sum += b->w[k] = sigmoid(b->x[index[k]]);
    for (int64_t k = 0; k < b->top_k; k++)
        mean += b->g[k] * b->w[k] / sum;
    for (int64_t k = 0; k < b->top_k; k++) {
        const double slope = b->w[k] * sigmoid(-b->x[index[k]]);
        b->d[index[k]] += slope * (b->a->renormalise ? (b->g[k] - mean) / sum : b->g[k]);
    }
}

/* d += what comes from the sums over kept tokens */
static void add_totals(const gradients *b, double lse)
{
    const double dz = b->a->dz_loss ? get(b->a->dz_loss, 0) : 0;
    double mean = 0;
    for (int64_t e = 0; e < b->experts; e++)
        mean += b->c[e] * b->p[e];
    for (int64_t e = 0; e < b->experts; e++)
        b->d[e] += b->p[e] * (b->c[e] - mean + dz * 2 * lse / b->kept);
}

/* c = dprobs + dbalance E counts / n^2 */
static void prepare_totals(gradients *b)
{
    const tg_moe_router_backward_args *a = b->a;
    double slots = 0;
    for (int64_t e = 0; a->counts && e < b->experts; e++)
        slots += get(a->counts, e);
    b->kept = fmax(1, floor(slots / (double)b->top_k));
    const double by = a->dbalance ? get(a->dbalance, 0) * (double)b->experts : 0;
    for (int64_t e = 0; e < b->experts; e++) {
        b->c[e] = a->dprobs ? get(a->dprobs, e) : 0;
        if (a->dbalance)
            b->c[e] += by * (get(a->counts, e) / b->kept) / b->kept;
    }
}

static tg_status backward(tg_ctx *ctx, const tg_moe_router_backward_args *a)
{
    const tg_rows logits = tg_rows_of(a->logits), dlogits = tg_rows_of(a->dlogits);
    const int64_t n = logits.n, top_k = a->index->shape[a->index->ndim - 1];
    double *room = tg_workspace(ctx, (size_t)(4 * n + 2 * top_k + 1) * sizeof *room);
    if (!room)
        return TG_ENOMEM;
    gradients b = {
        a, n, top_k, room, room + n, room + 2 * n, room + 4 * n, room + 4 * n + top_k, room + 3 * n,
        1};
    prepare_totals(&b);
    for (int64_t t = 0; t < logits.rows; t++) {
        const int64_t *index = (const int64_t *)tg_data(a->index) + t * top_k;
        const double lse = get(a->lse, t);
        read_row(&logits, t, b.x);
        for (int64_t e = 0; e < n; e++) {
            b.p[e] = exp(b.x[e] - lse);
            b.d[e] = 0;
        }
        for (int64_t k = 0; k < top_k; k++)
            b.g[k] = a->dweights ? a->scale * get(a->dweights, t * top_k + k) : 0;
        if (a->dweights && a->scoring == TG_MOE_SIGMOID)
            add_sigmoid(&b, index);
        else if (a->dweights)
            add_softmax(&b, index);
        if ((a->dprobs || a->dbalance || a->dz_loss) && is_kept(a->mask, t))
            add_totals(&b, lse);
        for (int64_t e = 0; e < n; e++)
            tg_set(dlogits.data, dlogits.type, t * dlogits.stride + e, b.d[e]);
    }
    return TG_OK;
}

TG_REF_IMPLS(moe_router) = {TG_REF_IMPL(moe_router_forward, forward),
                            TG_REF_IMPL(moe_router_backward, backward), TG_IMPLS_END};
