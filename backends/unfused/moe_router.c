/* moe_router as an eager framework runs it: scores of all experts, topk, gather, and each step of
 * the weights and of the losses as a pass of its own, in f32. */
#include <math.h>

#include "eager.h"

static float *at(mat m, int64_t row)
{
    return (float *)m.data + row * m.stride;
}

static int is_kept(const tg_tensor *mask, int64_t row)
{
    return !mask || ((const int64_t *)tg_data(mask))[row] != 0;
}

/* Rows that do not count become 0. */
static void drop(const eager *e, const tg_tensor *mask, mat m)
{
    for (int64_t r = 0; mask && !e->status && r < m.rows; r++)
        for (int64_t j = 0; !is_kept(mask, r) && j < m.cols; j++)
            at(m, r)[j] = 0;
}

/* ---- topk ---- */

/* The first of the largest, which becomes NaN; one at least is not NaN. */
static int64_t take(float *x, int64_t n)
{
    int64_t best = -1;
    for (int64_t i = 0; i < n; i++)
        if (!isnan(x[i]) && (best < 0 || x[i] > x[best]))
            best = i;
    x[best] = NAN;
    return best;
}

static void without_nan(mat m)
{
    for (int64_t r = 0; r < m.rows; r++)
        for (int64_t j = 0; j < m.cols; j++)
            at(m, r)[j] = isnan(at(m, r)[j]) ? HUGE_VALF : at(m, r)[j];
}

/* Of a row's groups those that are not kept become NaN. by: what is compared, of which room is a
 * copy; choice: what is added up. */
static void mask_groups(const tg_moe_router_forward_args *a, float *by, const float *choice,
                        float *room, float *group, int64_t n)
{
    const int64_t each = n / a->groups, kept = a->groups_kept ? a->groups_kept : a->groups;
    for (int64_t g = 0; g < a->groups; g++) {
        float *own = room + g * each;
        const int64_t first = take(own, each);
        const int two = a->group_score == TG_MOE_TWO_LARGEST && each > 1;
        group[g] = two ? choice[g * each + first] + choice[g * each + take(own, each)]
                       : by[g * each + first];
        group[g] = isnan(group[g]) ? HUGE_VALF : group[g];
    }
    for (int64_t k = 0; k < kept; k++)
        take(group, a->groups);
    for (int64_t e = 0; e < n; e++)
        by[e] = isnan(group[e / each]) ? by[e] : NAN;
}

/* by is used up. */
static void topk(eager *e, const tg_moe_router_forward_args *a, mat by, mat choice)
{
    const int limited = a->groups_kept && a->groups_kept < a->groups;
    const mat room = eager_copy(e, TG_F32, by), group = eager_new(e, TG_F32, 1, by.cols);
    int64_t *index = tg_data(a->index);
    if (e->status)
        return;
    without_nan(by);
    without_nan(room);
    for (int64_t r = 0; r < by.rows; r++) {
        if (limited)
            mask_groups(a, at(by, r), at(choice, r), at(room, r), at(group, 0), by.cols);
        for (int64_t k = 0; k < a->top_k; k++)
            index[r * a->top_k + k] = take(at(by, r), by.cols);
    }
    eager_free(e, room);
    eager_free(e, group);
}

/* ---- forward ---- */

/* Elements of m that the index names. */
static mat gather(eager *e, mat m, const tg_tensor *index)
{
    const int64_t top_k = index->shape[index->ndim - 1], *of = tg_data(index);
    const mat found = eager_new(e, TG_F32, m.rows, top_k);
    for (int64_t r = 0; !e->status && r < m.rows; r++)
        for (int64_t k = 0; k < top_k; k++)
            at(found, r)[k] = at(m, r)[of[r * top_k + k]];
    return found;
}

/* w / (1e-20 + its sum); returns what it was divided by. */
static mat renormalise(eager *e, mat w)
{
    const mat sum = eager_new(e, TG_F32, w.rows, 1);
    eager_reduce_rows(e, EAGER_SUM, sum, w);
    eager_scalar(e, EAGER_ADD, sum, sum, 1e-20);
    eager_binary(e, EAGER_DIV, w, w, sum);
    return sum;
}

static void write_losses(eager *e, const tg_moe_router_forward_args *a, mat p, mat lse)
{
    const int64_t n = p.cols, *index = tg_data(a->index);
    const mat sums = eager_new(e, TG_F32, 1, n), counts = eager_new(e, TG_F32, 1, n);
    drop(e, a->mask, p);
    drop(e, a->mask, lse);
    eager_sum_columns(e, sums, p);
    eager_fill(e, counts, 0);
    double kept = 0, squares = 0, balance = 0;
    for (int64_t r = 0; !e->status && r < p.rows; r++) {
        kept += is_kept(a->mask, r);
        squares += (double)at(lse, r)[0] * at(lse, r)[0];
        for (int64_t k = 0; is_kept(a->mask, r) && k < a->top_k; k++)
            at(counts, 0)[index[r * a->top_k + k]]++;
    }
    kept = kept > 0 ? kept : 1;
    for (int64_t i = 0; !e->status && i < n; i++) {
        balance += (double)n * (at(counts, 0)[i] / kept) * (at(sums, 0)[i] / kept);
        if (a->counts)
            ((int64_t *)tg_data(a->counts))[i] = (int64_t)at(counts, 0)[i];
        if (a->probs)
            ((float *)tg_data(a->probs))[i] = at(sums, 0)[i];
    }
    if (a->balance && !e->status)
        *(float *)tg_data(a->balance) = (float)balance;
    if (a->z_loss && !e->status)
        *(float *)tg_data(a->z_loss) = (float)(squares / kept);
}

static tg_status forward(tg_ctx *ctx, const tg_moe_router_forward_args *a)
{
    eager e = eager_begin(ctx);
    const mat logits = eager_copy(&e, TG_F32, eager_rows(a->logits));
    const mat lse = eager_new(&e, TG_F32, logits.rows, 1);
    const mat p = eager_softmax(&e, eager_copy(&e, TG_F32, logits), lse);
    const mat scores = eager_copy(&e, TG_F32, a->scoring == TG_MOE_SIGMOID ? logits : p);
    if (a->scoring == TG_MOE_SIGMOID)
        eager_unary(&e, EAGER_SIGMOID, scores, scores);
    const mat choice = eager_copy(&e, TG_F32, scores);
    if (a->bias)
        eager_binary(&e, EAGER_ADD, choice, choice, eager_vector(a->bias));
    topk(&e, a, eager_copy(&e, TG_F32, a->bias ? choice : logits), choice);
    const mat w = gather(&e, scores, a->index);
    if (a->renormalise)
        renormalise(&e, w);
    eager_scalar(&e, EAGER_MUL, eager_rows(a->weights), w, a->scale);
    if (a->lse)
        eager_unary(&e, EAGER_COPY, eager_column(a->lse), lse);
    write_losses(&e, a, p, lse);
    return eager_end(&e);
}

/* ---- backward ---- */

/* The gradient of all scores, [R, E]. */
static mat score_gradient(eager *e, const tg_moe_router_backward_args *a, mat scores)
{
    const int64_t *index = tg_data(a->index), top_k = a->index->shape[a->index->ndim - 1];
    const mat d = eager_new(e, TG_F32, scores.rows, scores.cols);
    eager_fill(e, d, 0);
    if (!a->dweights)
        return d;
    const mat g = eager_copy(e, TG_F32, eager_rows(a->dweights));
    eager_scalar(e, EAGER_MUL, g, g, a->scale);
    if (a->renormalise) {
        const mat w = gather(e, scores, a->index), sum = renormalise(e, w),
                  mean = eager_new(e, TG_F32, g.rows, 1);
        eager_binary(e, EAGER_MUL, w, w, g);
        eager_reduce_rows(e, EAGER_SUM, mean, w);
        eager_binary(e, EAGER_SUB, g, g, mean);
        eager_binary(e, EAGER_DIV, g, g, sum);
    }
    for (int64_t r = 0; !e->status && r < d.rows; r++)
        for (int64_t k = 0; k < top_k; k++)
            at(d, r)[index[r * top_k + k]] += at(g, r)[k];
    return d;
}

/* d = p (d - sum of d p) */
static void softmax_backward(eager *e, mat d, mat p)
{
    const mat terms = eager_like(e, d), mean = eager_new(e, TG_F32, d.rows, 1);
    eager_binary(e, EAGER_MUL, terms, d, p);
    eager_reduce_rows(e, EAGER_SUM, mean, terms);
    eager_binary(e, EAGER_SUB, d, d, mean);
    eager_binary(e, EAGER_MUL, d, d, p);
}

/* The gradient of p that comes from sums over kept tokens, and, by 2 lse / n, of lse. */
static mat loss_gradient(eager *e, const tg_moe_router_backward_args *a, mat p)
{
    const mat c = eager_new(e, TG_F32, 1, p.cols), d = eager_like(e, p);
    const int64_t *counts = tg_data(a->counts);
    double slots = 0, top_k = (double)a->index->shape[a->index->ndim - 1];
    for (int64_t i = 0; counts && i < p.cols; i++)
        slots += (double)counts[i];
    const double kept = slots > 0 ? slots / top_k : 1;
    const double by = a->dbalance ? (double)*(float *)tg_data(a->dbalance) * (double)p.cols : 0;
    for (int64_t i = 0; !e->status && i < p.cols; i++)
        at(c, 0)[i] = (float)((a->dprobs ? ((float *)tg_data(a->dprobs))[i] : 0) +
                              (a->dbalance ? by * ((double)counts[i] / kept) / kept : 0));
    eager_fill(e, d, 0);
    eager_binary(e, EAGER_ADD, d, d, c);
    softmax_backward(e, d, p);
    if (a->dz_loss) {
        const mat z = eager_like(e, p);
        eager_binary(e, EAGER_MUL, z, p, eager_column(a->lse));
        eager_scalar(e, EAGER_MUL, z, z, 2 * (double)*(float *)tg_data(a->dz_loss) / kept);
        eager_binary(e, EAGER_ADD, d, d, z);
    }
    drop(e, a->mask, d);
    return d;
}

static tg_status backward(tg_ctx *ctx, const tg_moe_router_backward_args *a)
{
    eager e = eager_begin(ctx);
    const mat logits = eager_copy(&e, TG_F32, eager_rows(a->logits)), p = eager_like(&e, logits);
    eager_binary(&e, EAGER_SUB, p, logits, eager_column(a->lse));
    eager_unary(&e, EAGER_EXP, p, p);
    const int sigmoid = a->scoring == TG_MOE_SIGMOID;
    const mat scores = eager_copy(&e, TG_F32, sigmoid ? logits : p);
    if (sigmoid)
        eager_unary(&e, EAGER_SIGMOID, scores, scores);
    const mat d = score_gradient(&e, a, scores);
    if (sigmoid) {
        eager_binary(&e, EAGER_MUL, d, d, scores);
        eager_scalar(&e, EAGER_MUL, scores, scores, -1);
        eager_scalar(&e, EAGER_ADD, scores, scores, 1);
        eager_binary(&e, EAGER_MUL, d, d, scores);
    } else if (a->dweights) {
        softmax_backward(&e, d, p);
    }
    if (a->dprobs || a->dbalance || a->dz_loss)
        eager_binary(&e, EAGER_ADD, d, d, loss_gradient(&e, a, p));
    eager_unary(&e, EAGER_COPY, eager_rows(a->dlogits), d);
    return eager_end(&e);
}

UNFUSED_IMPLS(moe_router) = {UNFUSED_IMPL(moe_router_forward, forward),
                             UNFUSED_IMPL(moe_router_backward, backward), TG_IMPLS_END};
