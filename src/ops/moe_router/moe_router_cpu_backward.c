/* moe_router on the CPU, backward: the chosen experts' gradients by themselves, and one walk over a
 * token's logits for what all of them have. */
#include "moe_router_cpu.h"

typedef struct job {
    el type;
    operand logits, out;
    int64_t n, top_k;
    int sigmoid, renormalise;
    int sums, all;  /* are there gradients of sums; do weights give one to all logits? */
    float scale, z; /* z: dz_loss 2 / n */
    const int64_t *index, *mask;
    const float *lse, *dweights; /* NULL: no gradient of weights */
    const float *c;              /* [n]: the gradient of probs; NULL: 0 */
    float *scratch;              /* of each worker: x, which dlogits replace, w, and g */
    int64_t room;                /* of one of these */
} job;

enum { X, W, G, KEPT };

/* Of a renormalised softmax w of x: g = w (g - sum of g w) */
static void through_softmax(const job *j, float *w, float *g)
{
    const float sum = router_exps(w, w, j->top_k, router_max(w, j->top_k));
    vf all = v_set(0.0f);
    for (int64_t k = 0; k < j->top_k; k += VL)
        all += v_load(EL_F32, g, k) * v_load(EL_F32, w, k);
    const vf mean = v_set(v_sum(all) / sum);
    for (int64_t k = 0; k < j->top_k; k += VL)
        v_store(EL_F32, g, k, v_load(EL_F32, w, k) / v_set(sum) * (v_load(EL_F32, g, k) - mean));
}

/* Of the logistic function s of x: g = s (1 - s) g, renormalised (g - sum of g s / u) / u in place
 * of g, u = 1e-20 + sum of s. Of one expert s / u is 1, and nothing must be left. */
static void through_sigmoid(const job *j, float *w, float *g)
{
    vf all = v_set(0.0f), sum = v_set(0.0f);
    for (int64_t k = 0; j->renormalise && k < j->top_k; k += VL)
        sum += v_sigmoid(v_load(EL_F32, w, k));
    const vf u = v_set(j->renormalise ? v_sum(sum) + 1e-20f : 1);
    for (int64_t k = 0; j->renormalise && k < j->top_k; k += VL)
        all += v_load(EL_F32, g, k) * (v_sigmoid(v_load(EL_F32, w, k)) / u);
    const vf mean = v_set(v_sum(all));
    for (int64_t k = 0; k < j->top_k; k += VL) {
        const vf x = v_load(EL_F32, w, k), slope = v_sigmoid(x) * v_sigmoid(-x);
        v_store(EL_F32, g, k, slope / u * (v_load(EL_F32, g, k) - mean));
    }
}

/* g = what the chosen experts' logits have of the weights; returns what p is multiplied by beside
 * it: with softmax of all experts, - sum of g p. */
static float chosen(const job *j, int64_t t, const float *x, float *w, float *g)
{
    const float *dweights = j->dweights + t * j->top_k;
    for (int64_t k = 0; k < j->top_k; k++)
        g[k] = j->scale * dweights[k];
    router_fill(g, j->top_k, 0);
    router_pick(x, j->index + t * j->top_k, j->top_k, w);
    if (j->sigmoid) {
        through_sigmoid(j, w, g);
    } else if (j->renormalise) {
        through_softmax(j, w, g);
    } else {
        vf all = v_set(0.0f);
        for (int64_t k = 0; k < j->top_k; k += VL) {
            const vf p = v_exp(v_load(EL_F32, w, k) - v_set(j->lse[t]));
            const vf each = v_load(EL_F32, g, k) * p;
            v_store(EL_F32, g, k, each);
            all += each;
        }
        return -v_sum(all);
    }
    return 0;
}

/* x = p (c + by - sum of c p), of a token that is kept */
static void spread_kept(const job *j, float *x, float lse, float by)
{
    vf sum = v_set(0.0f);
    for (int64_t e = 0; e < j->n; e += VL) {
        const vf p = v_exp(v_load(EL_F32, x, e) - v_set(lse));
        v_store(EL_F32, x, e, p);
        sum += j->c ? p * v_load(EL_F32, j->c, e) : v_set(0.0f);
    }
    const vf mean = v_set(v_sum(sum)), rest = v_set(by + j->z * lse);
    for (int64_t e = 0; e < j->n; e += VL) {
        const vf c = j->c ? v_load(EL_F32, j->c, e) : v_set(0.0f);
        v_store(EL_F32, x, e, v_load(EL_F32, x, e) * ((c - mean) + rest));
    }
}

static void spread_other(const job *j, float *x, float lse, float by)
{
    for (int64_t e = 0; e < j->n; e += VL)
        v_store(EL_F32, x, e, v_exp(v_load(EL_F32, x, e) - v_set(lse)) * v_set(by));
}

static void token(const job *j, int64_t t, float *own)
{
    float *x = own + X * j->room, *g = own + G * j->room;
    const int64_t *index = j->index + t * j->top_k;
    router_read(j->type, row_at(&j->logits, t), j->n, x);
    const float by = j->dweights ? chosen(j, t, x, own + W * j->room, g) : 0;
    if (j->sums && (!j->mask || j->mask[t]))
        spread_kept(j, x, j->lse[t], by);
    else if (j->all)
        spread_other(j, x, j->lse[t], by);
    else
        memset(x, 0, (size_t)j->n * sizeof *x);
    for (int64_t k = 0; j->dweights && k < j->top_k; k++)
        x[index[k]] += g[k];
    EL_SPECIALIZE(j->type, run_round, x, row_at(&j->out, t), j->n);
}

static void token_chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    const job *j = arg;
    for (int64_t t = begin; t < end; t++)
        token(j, t, j->scratch + worker * KEPT * j->room);
}

/* c = dprobs + dbalance E counts / n^2, and z */
static void prepare(const tg_moe_router_backward_args *a, job *j, float *c)
{
    const int64_t *counts = tg_data(a->counts);
    const float *dprobs = tg_data(a->dprobs), *dbalance = tg_data(a->dbalance),
                *dz = tg_data(a->dz_loss);
    double slots = 0; /* exact, and no count that a caller made up overflows */
    for (int64_t e = 0; counts && e < j->n; e++)
        slots += (double)counts[e];
    const double kept = j->top_k ? floor(slots / (double)j->top_k) : 0, n = kept > 0 ? kept : 1;
    for (int64_t e = 0; e < j->n; e++) {
        const double each =
            dbalance ? (double)*dbalance * (double)j->n * ((double)counts[e] / n) / n : 0;
        c[e] = (float)((dprobs ? dprobs[e] : 0) + each);
    }
    router_fill(c, j->n, 0);
    j->c = dprobs || dbalance ? c : NULL;
    j->z = dz ? (float)(2 * (double)*dz / n) : 0;
}

static tg_status backward(tg_ctx *ctx, const tg_moe_router_backward_args *a)
{
    const tg_rows rows = tg_rows_of(a->logits);
    job j = {.type = el_of(a->logits),
             .logits = operand_of(a->logits),
             .out = operand_of(a->dlogits),
             .n = rows.n,
             .top_k = a->index->shape[a->index->ndim - 1],
             .sigmoid = a->scoring == TG_MOE_SIGMOID,
             .renormalise = a->renormalise != 0,
             .scale = (float)a->scale,
             .index = tg_data(a->index),
             .mask = tg_data(a->mask),
             .lse = tg_data(a->lse),
             .dweights = tg_data(a->dweights)};
    j.room = router_room(j.n > j.top_k ? j.n : j.top_k);
    const int64_t floats = tg_ctx_threads(ctx) * KEPT * j.room;
    j.scratch = tg_workspace(ctx, (size_t)(floats + j.room) * sizeof *j.scratch);
    if (!j.scratch)
        return TG_ENOMEM;
    prepare(a, &j, j.scratch + floats);
    j.sums = a->dprobs || a->dbalance || a->dz_loss;
    j.all = a->dweights && !j.sigmoid && !j.renormalise;
    tg_parallel_for(ctx, rows.rows, rows_grain(rows.rows, 4 * j.n, 1), token_chunk, &j);
    return TG_OK;
}

TG_CPU_IMPLS(moe_router_backward) = {TG_CPU_IMPL(moe_router_backward, backward), TG_IMPLS_END};
