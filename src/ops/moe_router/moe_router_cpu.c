/* moe_router on the CPU, forward. A token's logits are held as f32 in the first cache, and its
 * experts are found one after the other by the largest of all keys: choices, in which a NaN stands
 * for infinity, and in which what has been chosen, or may not be, becomes NaN itself, which no
 * maximum takes. */
#include "moe_router_cpu.h"

/* What a chunk of tokens adds to the sums over kept tokens. */
typedef struct totals {
    double squares; /* of lse */
    int64_t kept;
} totals;

typedef struct job {
    el type, weights_type;
    operand logits;
    int64_t n, top_k, groups, kept;
    int sigmoid, renormalise, two_largest;
    int exps, scores, sums; /* are softmax of all, scores of all, sums over tokens needed? */
    float scale;
    const float *bias;   /* may be NULL, as may be: */
    const int64_t *mask; /* one of each token */
    int64_t *index;
    char *weights;
    float *lse;
    float *scratch; /* of each worker: x, powers, scores, keys, weights, and group scores */
    int64_t room;   /* of one of these */
    /* of each chunk of `grain` tokens: */
    totals *totals;
    float *probs;    /* [n] */
    int64_t *counts; /* [n] */
    int64_t grain;
} job;

enum { X, POWERS, SCORES, KEYS, WEIGHTS, GROUPS, KEPT };

/* ---- the choice ---- */

SIMD_INLINE vf key_of(vf x)
{
    return v_select(x == x, x, v_set(INFINITY));
}

/* The first of the largest keys, which becomes NaN. One at least is not NaN. */
static int64_t take_largest(float *keys, int64_t n)
{
    const float largest = router_max(keys, n);
    int64_t e = 0;
    while (e + VL < n && !v_any(v_load(EL_F32, keys, e) == v_set(largest)))
        e += VL;
    while (e + 1 < n && keys[e] != largest)
        e++;
    keys[e] = NAN;
    return e;
}

/* Of experts [first, first + each): the score of the largest key, or with that of the second. */
static float score_of_group(const job *j, const float *keys, const float *scores, int64_t first,
                            int64_t each)
{
    int64_t best = first, next = -1;
    for (int64_t e = first + 1; e < first + each; e++)
        if (keys[e] > keys[best]) {
            next = best;
            best = e;
        } else if (next < 0 || keys[e] > keys[next]) {
            next = e;
        }
    return !j->two_largest || next < 0 ? keys[best] : scores[best] + scores[next];
}

/* Keys of experts outside the kept groups become NaN. */
static void limit_groups(const job *j, float *keys, const float *scores, float *group)
{
    const int64_t each = j->n / j->groups;
    for (int64_t g = 0; g < j->groups; g++) {
        const float score = score_of_group(j, keys, scores, g * each, each);
        group[g] = score == score ? score : INFINITY;
    }
    router_fill(group, j->groups, NAN);
    for (int64_t i = 0; i < j->kept; i++)
        take_largest(group, j->groups);
    for (int64_t g = 0; g < j->groups; g++)
        for (int64_t e = 0; group[g] == group[g] && e < each; e++)
            keys[g * each + e] = NAN;
}

/* scores = what chooses, of which keys are made; may be the logits themselves */
static void choose(const job *j, const float *x, float *own, int64_t *index)
{
    float *scores = own + SCORES * j->room, *keys = own + KEYS * j->room;
    for (int64_t e = 0; e < j->n; e += VL) {
        const vf score = v_load(EL_F32, j->scores ? scores : x, e);
        if (j->scores && j->bias) {
            v_store(EL_F32, scores, e, score + v_load(EL_F32, j->bias, e));
            v_store(EL_F32, keys, e, key_of(score + v_load(EL_F32, j->bias, e)));
        } else {
            v_store(EL_F32, keys, e, key_of(v_load(EL_F32, x, e)));
        }
    }
    router_fill(keys, j->n, NAN);
    if (j->kept < j->groups)
        limit_groups(j, keys, scores, own + GROUPS * j->room);
    for (int64_t k = 0; k < j->top_k; k++)
        index[k] = take_largest(keys, j->n);
}

/* ---- a token ---- */

/* scores = softmax or the logistic function of x */
static void score(const job *j, const float *x, float *own, float sum)
{
    const float *powers = own + POWERS * j->room;
    float *scores = own + SCORES * j->room;
    for (int64_t e = 0; e < j->n; e += VL)
        v_store(EL_F32, scores, e,
                j->sigmoid ? v_sigmoid(v_load(EL_F32, x, e))
                           : v_load(EL_F32, powers, e) / v_set(sum));
}

/* max, sum: of all logits and their powers */
static void weigh(const job *j, const float *x, const int64_t *index, float max, float sum,
                  float *w)
{
    router_pick(x, index, j->top_k, w);
    if (j->sigmoid) {
        vf all = v_set(0.0f);
        for (int64_t k = 0; k < j->top_k; k += VL) {
            const vf s = v_sigmoid(v_load(EL_F32, w, k));
            v_store(EL_F32, w, k, s);
            all += s;
        }
        sum = j->renormalise ? v_sum(all) + 1e-20f : 1.0f;
    } else if (j->renormalise) {
        sum = router_exps(w, w, j->top_k, router_max(w, j->top_k));
    } else {
        router_exps(w, w, j->top_k, max);
    }
    for (int64_t k = 0; k < j->top_k; k += VL)
        v_store(EL_F32, w, k, v_load(EL_F32, w, k) / v_set(sum) * v_set(j->scale));
}

static void add_token(const job *j, int64_t chunk, const float *powers, const int64_t *index,
                      float sum, float lse)
{
    float *probs = j->probs + chunk * j->room;
    int64_t *counts = j->counts + chunk * j->n;
    for (int64_t e = 0; e < j->n; e += VL)
        v_store(EL_F32, probs, e,
                v_load(EL_F32, probs, e) + v_load(EL_F32, powers, e) / v_set(sum));
    for (int64_t k = 0; k < j->top_k; k++)
        counts[index[k]]++;
    j->totals[chunk].squares += (double)lse * lse;
    j->totals[chunk].kept++;
}

static void route_token(const job *j, int64_t t, float *own)
{
    float *x = own + X * j->room, *powers = own + POWERS * j->room, *w = own + WEIGHTS * j->room;
    int64_t *index = j->index + t * j->top_k;
    router_read(j->type, row_at(&j->logits, t), j->n, x);
    const float max = j->exps ? router_max(x, j->n) : 0;
    const float sum = j->exps ? router_exps(x, powers, j->n, max) : 1;
    const float lse = max + v_log(v_set(sum))[0];
    if (j->scores)
        score(j, x, own, sum);
    choose(j, x, own, index);
    weigh(j, x, index, max, sum, w);
    char *weights = j->weights + t * j->top_k * el_size(j->weights_type);
    EL_SPECIALIZE(j->weights_type, run_round, w, weights, j->top_k);
    if (j->lse)
        j->lse[t] = lse;
    if (j->sums && (!j->mask || j->mask[t]))
        add_token(j, t / j->grain, powers, index, sum, lse);
}

static void route_chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    const job *j = arg;
    const int64_t chunk = begin / j->grain;
    if (j->sums) {
        memset(j->probs + chunk * j->room, 0, (size_t)j->room * sizeof *j->probs);
        memset(j->counts + chunk * j->n, 0, (size_t)j->n * sizeof *j->counts);
        j->totals[chunk] = (totals){0, 0};
    }
    for (int64_t t = begin; t < end; t++)
        route_token(j, t, j->scratch + worker * KEPT * j->room);
}

/* ---- calls ---- */

/* The chunks' sums, in their order. */
static void write_sums(const tg_moe_router_forward_args *a, const job *j, int64_t chunks)
{
    double squares = 0, balance = 0;
    int64_t kept = 0;
    for (int64_t c = 0; c < chunks; c++) {
        squares += j->totals[c].squares;
        kept += j->totals[c].kept;
    }
    const double n = kept ? (double)kept : 1;
    for (int64_t e = 0; e < j->n; e++) {
        double probs = 0;
        int64_t count = 0;
        for (int64_t c = 0; c < chunks; c++) {
            probs += j->probs[c * j->room + e];
            count += j->counts[c * j->n + e];
        }
        balance += (double)j->n * ((double)count / n) * (probs / n);
        if (a->counts)
            ((int64_t *)tg_data(a->counts))[e] = count;
        if (a->probs)
            ((float *)tg_data(a->probs))[e] = (float)probs;
    }
    if (a->balance)
        *(float *)tg_data(a->balance) = (float)balance;
    if (a->z_loss)
        *(float *)tg_data(a->z_loss) = (float)(squares / n);
}

static tg_status memory(tg_ctx *ctx, job *j, int64_t chunks, const tg_tensor *bias)
{
    const int64_t floats = tg_ctx_threads(ctx) * KEPT * j->room + j->room;
    j->scratch = tg_workspace(ctx, (size_t)floats * sizeof *j->scratch);
    if (!j->scratch)
        return TG_ENOMEM;
    if (bias) { /* with room for whole vectors */
        float *own = j->scratch + floats - j->room;
        memcpy(own, tg_data(bias), (size_t)j->n * sizeof *own);
        router_fill(own, j->n, 0);
        j->bias = own;
    }
    if (!j->sums)
        return TG_OK;
    j->totals = tg_workspace(ctx, (size_t)chunks * sizeof *j->totals);
    j->probs = tg_workspace(ctx, (size_t)(chunks * j->room) * sizeof *j->probs);
    j->counts = tg_workspace(ctx, (size_t)(chunks * j->n) * sizeof *j->counts);
    return j->totals && j->probs && j->counts ? TG_OK : TG_ENOMEM;
}

static tg_status forward(tg_ctx *ctx, const tg_moe_router_forward_args *a)
{
    const tg_rows rows = tg_rows_of(a->logits);
    job j = {.type = el_of(a->logits),
             .weights_type = el_of(a->weights),
             .logits = operand_of(a->logits),
             .n = rows.n,
             .top_k = a->top_k,
             .groups = a->groups,
             .kept = a->groups_kept ? a->groups_kept : a->groups,
             .sigmoid = a->scoring == TG_MOE_SIGMOID,
             .renormalise = a->renormalise != 0,
             .two_largest = a->group_score == TG_MOE_TWO_LARGEST,
             .sums = a->counts || a->probs || a->balance || a->z_loss,
             .scale = (float)a->scale,
             .mask = tg_data(a->mask),
             .index = tg_data(a->index),
             .weights = tg_data(a->weights),
             .lse = tg_data(a->lse),
             .room = router_room(rows.n)};
    j.scores = a->bias || (j.kept < j.groups && j.two_largest);
    j.exps = (!j.sigmoid && (j.scores || !j.renormalise)) || j.lse || j.sums;
    j.grain = columns_grain(rows.rows, rows_worth(rows.n, WORTH), 1);
    const int64_t chunks = (rows.rows + j.grain - 1) / j.grain;
    TG_TRY(memory(ctx, &j, chunks, a->bias));
    tg_parallel_for(ctx, rows.rows, j.grain, route_chunk, &j);
    if (j.sums)
        write_sums(a, &j, chunks);
    return TG_OK;
}

TG_CPU_IMPLS(moe_router) = {TG_CPU_IMPL(moe_router_forward, forward), TG_IMPLS_END};
