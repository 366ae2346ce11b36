/* policy_loss on the CPU: tokens a vector at a time, in f32 (grpo_loss_policy.h), and those of
 * unusual size by the definition. Sequences go in pieces; what is summed of a piece is added up in
 * double in the order of the pieces. */
#include "grpo_loss_policy.h"
#include "rows/rows.h"

/* PIECE: most tokens of an item; RUN: that are summed in f32. */
enum { PIECE = 4096, RUN = 512, SUMS = 4 };

typedef struct job {
    grpo g;
    grpo_plane logp, dloss, dlogp, out[3]; /* out: loss, kl, clipped */
    grpo_sequence *sequences;
    double *sums; /* SUMS of an item */
    int64_t pieces;
} job;

/* ---- numbers of a sequence's tokens ---- */

typedef struct source {
    char *data; /* NULL: all are `value` */
    el type;
    float value;
} source;

static source source_of(const grpo_plane *p, int64_t b, float otherwise)
{
    const el type = (el)tg_el(p->type);
    if (p->data && p->by_token)
        return (source){(char *)p->data + b * p->by_batch * el_size(type), type, 0};
    return (source){NULL, type, (float)grpo_get(p, b, 0, otherwise)};
}

static __attribute__((noinline)) vf source_part(const source *s, int64_t l, int64_t n)
{
    vf x = {0};
    if (s->type == EL_F32)
        x = v_load_n(EL_F32, s->data, l, n, 0);
    else if (s->type == EL_BF16)
        x = v_load_n(EL_BF16, s->data, l, n, 0);
    else
        x = v_load_n(EL_F16, s->data, l, n, 0);
    return x;
}

/* Tokens [l, l + n), n at most VL. */
SIMD_INLINE vf source_get(const source *s, int64_t l, int64_t n)
{
    if (!s->data)
        return v_set(s->value);
    if (n == VL && s->type == EL_F32)
        return v_load(EL_F32, s->data, l);
    if (n == VL && s->type == EL_BF16)
        return v_load(EL_BF16, s->data, l);
    return source_part(s, l, n);
}

static __attribute__((noinline)) void source_put_part(const source *s, int64_t l, int64_t n, vf x)
{
    if (s->type == EL_F32)
        v_store_n(EL_F32, s->data, l, n, x);
    else if (s->type == EL_BF16)
        v_store_n(EL_BF16, s->data, l, n, x);
    else
        v_store_n(EL_F16, s->data, l, n, x);
}

/* Where a result of each token goes; nowhere if it is not given. */
static source target_of(const grpo_plane *p, int64_t b)
{
    const el type = (el)tg_el(p->type);
    char *data = p->data ? (char *)p->data + b * p->by_batch * el_size(type) : NULL;
    return (source){data, type, 0};
}

SIMD_INLINE void source_put(const source *s, int64_t l, int64_t n, vf x)
{
    if (!s->data)
        return;
    if (n == VL && s->type == EL_F32)
        v_store(EL_F32, s->data, l, x);
    else if (n == VL && s->type == EL_BF16)
        v_store(EL_BF16, s->data, l, x);
    else
        source_put_part(s, l, n, x);
}

SIMD_INLINE vi kept_of(const grpo_plane *mask, int64_t b, int64_t l, int64_t n)
{
    vi kept = v_first(n);
    for (int64_t i = 0; i < n && mask->data; i++)
        kept[i] = grpo_kept(mask, b, l + i) ? -1 : 0;
    return kept;
}

/* ---- a piece of a sequence ---- */

typedef struct span {
    const job *j;
    const grpo_sequence *s;
    int64_t b, begin, end;
    token_options o;
    vi ordinary; /* all lanes: what the tokens have in common is so */
    source logp, old, ref, factor;
} span;

static span span_of(const job *j, int64_t item)
{
    const grpo *g = &j->g;
    const int64_t b = item / j->pieces, begin = item % j->pieces * PIECE;
    const int64_t end = g->length - begin < PIECE ? g->length : begin + PIECE;
    const grpo_sequence *s = &j->sequences[b];
    const grpo_plane none = {0}, *ratio = g->o.type == TG_VESPO ? &none : &g->is_ratio;
    return (span){.j = j,
                  .s = s,
                  .b = b,
                  .begin = begin,
                  .end = end,
                  .o = token_options_of(g, s),
                  .ordinary = v_seti(sequence_ordinary(g, s) ? -1 : 0),
                  .logp = source_of(&j->logp, b, 0),
                  .old = source_of(&g->old_logp, b, 0),
                  .ref = source_of(&g->ref_logp, b, 0),
                  .factor = source_of(ratio, b, 1)};
}

/* The tokens of the lanes that are set, by the definition. */
static __attribute__((noinline)) void define(const span *p, int64_t l, vi lanes, vf logp, tokens *t)
{
    *t = (tokens){.loss = {0}};
    for (int i = 0; i < VL; i++) {
        if (!lanes[i])
            continue;
        const grpo_token one = grpo_token_of(&p->j->g, p->s, l + i, logp[i]);
        t->loss[i] = (float)one.loss;
        t->kl[i] = (float)one.kl;
        t->clipped[i] = (float)one.clipped;
        t->direct[i] = (float)one.direct;
        t->by_log_rho[i] = (float)one.by_log_rho;
    }
}

/* Tokens [l, l + n); 0 in lanes that are not kept. */
SIMD_INLINE tokens tokens_of(const span *p, int64_t l, int64_t n)
{
    const grpo *g = &p->j->g;
    const vi kept = kept_of(&g->mask, p->b, l, n);
    const vf logp = source_get(&p->logp, l, n), zero = v_set(0.0f);
    const token_input in = {logp, g->old_logp.data ? source_get(&p->old, l, n) : logp,
                            g->ref_logp.data ? source_get(&p->ref, l, n) : logp,
                            source_get(&p->factor, l, n)};
    tokens t = token_of(&p->o, &in);
    const vi strange = kept & ~(token_ordinary(&in) & p->ordinary);
    if (v_any(strange)) {
        tokens d;
        define(p, l, strange, logp, &d);
        t = (tokens){v_select(strange, d.loss, t.loss), v_select(strange, d.kl, t.kl),
                     v_select(strange, d.clipped, t.clipped), v_select(strange, d.direct, t.direct),
                     v_select(strange, d.by_log_rho, t.by_log_rho)};
    }
    return (tokens){v_select(kept, t.loss, zero), v_select(kept, t.kl, zero),
                    v_select(kept, t.clipped, zero), v_select(kept, t.direct, zero),
                    v_select(kept, t.by_log_rho, zero)};
}

/* ---- what the tokens of a sequence have in common ---- */

enum { KEPT, RATED, MOVED, CLAMPED };

SIMD_INLINE vf clamped_to(vf x, float low, float high)
{
    const vf a = v_set(low), b = v_set(high);
    return v_select(x < a, a, v_select(x > b, b, x));
}

static void count_run(const span *p, int64_t begin, int64_t end, double *sums)
{
    const grpo *g = &p->j->g;
    const float least = -18.420680743952367f; /* log 1e-8 */
    const vf zero = v_set(0.0f), one = v_set(1.0f);
    vf sum[SUMS] = {zero, zero, zero, zero};
    for (int64_t l = begin; l < end; l += VL) {
        const int64_t n = v_tail(end, l);
        const vi rated = kept_of(&g->ratio_mask, p->b, l, n);
        sum[KEPT] += v_select(kept_of(&g->mask, p->b, l, n), one, zero);
        sum[RATED] += v_select(rated, one, zero);
        if (!g->old_logp.data && !g->is_ratio.by_token)
            continue;
        const vf logp = source_get(&p->logp, l, n);
        const vf moved = logp - (g->old_logp.data ? source_get(&p->old, l, n) : logp);
        vf clamped = clamped_to(moved, -20, 20);
        if (g->is_ratio.by_token)
            clamped += clamped_to(v_log(source_get(&p->factor, l, n)), least, 20);
        sum[MOVED] += v_select(rated, moved, zero);
        sum[CLAMPED] += v_select(rated, clamped, zero);
    }
    for (int i = 0; i < SUMS; i++)
        sums[i] += v_sum(sum[i]);
}

static void count_items(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const job *j = arg;
    for (int64_t item = begin; item < end; item++) {
        span p = span_of(j, item);
        p.factor = source_of(&j->g.is_ratio, p.b, 1);
        double *sums = j->sums + item * SUMS;
        sums[KEPT] = sums[RATED] = sums[MOVED] = sums[CLAMPED] = 0;
        for (int64_t l = p.begin; l < p.end; l += RUN)
            count_run(&p, l, p.end - l < RUN ? p.end : l + RUN, sums);
    }
}

/* ---- forward ---- */

SIMD_INLINE void forward_run(const span *p, const source *out, int64_t begin, int64_t end,
                             double *sums)
{
    vf loss = v_set(0.0f), kl = loss, clipped = loss;
    for (int64_t l = begin; l < end; l += VL) {
        const int64_t n = v_tail(end, l);
        const tokens t = tokens_of(p, l, n);
        loss += t.loss;
        kl += t.kl;
        clipped += t.clipped;
        source_put(&out[0], l, n, t.loss);
        source_put(&out[1], l, n, t.kl);
        source_put(&out[2], l, n, t.clipped);
    }
    sums[0] += v_sum(loss);
    sums[1] += v_sum(kl);
    sums[2] += v_sum(clipped);
}

static void forward_items(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const job *j = arg;
    const grpo_plane none = {0};
    for (int64_t item = begin; item < end; item++) {
        const span p = span_of(j, item);
        source out[3];
        for (int i = 0; i < 3; i++)
            out[i] = target_of(j->g.o.each ? &j->out[i] : &none, p.b);
        double *sums = j->sums + item * SUMS;
        sums[0] = sums[1] = sums[2] = 0;
        for (int64_t l = p.begin; l < p.end; l += RUN)
            forward_run(&p, out, l, p.end - l < RUN ? p.end : l + RUN, sums);
    }
}

/* ---- backward ---- */

/* At TG_SEQUENCE_LEVEL: what reaches log rho. */
static void part_items(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const job *j = arg;
    for (int64_t item = begin; item < end; item++) {
        const span p = span_of(j, item);
        const source dloss = source_of(&j->dloss, p.b, 1);
        double *sums = j->sums + item * SUMS;
        sums[0] = 0;
        for (int64_t run = p.begin; run < p.end; run += RUN) {
            const int64_t last = p.end - run < RUN ? p.end : run + RUN;
            vf sum = v_set(0.0f);
            for (int64_t l = run; l < last; l += VL) {
                const int64_t n = v_tail(last, l);
                sum += source_get(&dloss, l, n) * tokens_of(&p, l, n).by_log_rho;
            }
            sums[0] += v_sum(sum) * p.s->weight;
        }
    }
}

/* A token is read before it is written: dlogp may be logp. */
static void backward_items(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const job *j = arg;
    const grpo *g = &j->g;
    for (int64_t item = begin; item < end; item++) {
        const span p = span_of(j, item);
        const source dloss = source_of(&j->dloss, p.b, 1), dlogp = target_of(&j->dlogp, p.b);
        const vf weight = v_set((float)p.s->weight), zero = v_set(0.0f);
        const vf part = v_set(g->o.sequence ? (float)j->sums[p.b * j->pieces * SUMS + 1] : 0.0f);
        for (int64_t l = p.begin; l < p.end; l += VL) {
            const int64_t n = v_tail(p.end, l);
            const tokens t = tokens_of(&p, l, n);
            const vi kept = kept_of(&g->mask, p.b, l, n);
            const vf up = weight * source_get(&dloss, l, n);
            const vf d = up * (g->o.sequence ? t.direct : t.direct + t.by_log_rho);
            vf sum = v_select(kept, d, zero);
            if (g->o.sequence)
                sum += v_select(kept_of(&g->ratio_mask, p.b, l, n), part, zero);
            source_put(&dlogp, l, n, sum);
        }
    }
}

/* ---- a call ---- */

static void each_item(tg_ctx *ctx, job *j, tg_range_fn items)
{
    const int64_t n = j->g.length < PIECE ? j->g.length : PIECE;
    tg_parallel_for(ctx, j->g.batch * j->pieces, rows_worth(n, ROWS_WORTH), items, j);
}

/* The sum of a sequence's items. */
static double sum_of(const job *j, int64_t b, int which)
{
    double sum = 0;
    for (int64_t i = 0; i < j->pieces; i++)
        sum += j->sums[(b * j->pieces + i) * SUMS + which];
    return sum;
}

/* Sets what the tokens of each sequence have in common. */
static tg_status begin(tg_ctx *ctx, job *j)
{
    grpo *g = &j->g;
    const size_t batch = (size_t)g->batch;
    j->pieces = (g->length + PIECE - 1) / PIECE;
    j->sequences = tg_workspace(ctx, (batch + 1) * sizeof *j->sequences);
    j->sums = tg_workspace(ctx, (batch * (size_t)j->pieces + 1) * SUMS * sizeof *j->sums);
    if (!j->sequences || !j->sums)
        return TG_ENOMEM;
    const double length = (double)g->length;
    for (int64_t b = 0; b < g->batch; b++)
        j->sequences[b] = (grpo_sequence){.b = b,
                                          .advantage = grpo_get(&g->advantages, b, 0, 0),
                                          .kept = length,
                                          .rated = length};
    const int counts = g->mask.data || g->ratio_mask.data || grpo_compares(g);
    if (counts)
        each_item(ctx, j, count_items);
    for (int64_t b = 0; b < g->batch; b++) {
        if (counts) {
            j->sequences[b].kept = sum_of(j, b, KEPT);
            j->sequences[b].rated = sum_of(j, b, RATED);
        }
        g->kept += j->sequences[b].kept;
    }
    for (int64_t b = 0; b < g->batch; b++)
        grpo_weigh(g, &j->sequences[b], counts ? sum_of(j, b, MOVED) : 0,
                   counts ? sum_of(j, b, CLAMPED) : 0);
    return TG_OK;
}

static tg_status forward(tg_ctx *ctx, const tg_policy_loss_forward_args *args)
{
    job j = {
        .g = GRPO_OF_POLICY(args),
        .logp = grpo_plane_of(args->logp),
        .out = {grpo_plane_of(args->loss), grpo_plane_of(args->kl), grpo_plane_of(args->clipped)}};
    TG_TRY(begin(ctx, &j));
    each_item(ctx, &j, forward_items);
    const double share = 1 / (j.g.kept < 1 ? 1 : j.g.kept);
    for (int i = 0; i < 3 && !j.g.o.each; i++) {
        double sum = 0;
        for (int64_t b = 0; b < j.g.batch; b++)
            sum += sum_of(&j, b, i) * (i ? share : j.sequences[b].weight);
        grpo_put(&j.out[i], 0, 0, sum);
    }
    return TG_OK;
}

static tg_status backward(tg_ctx *ctx, const tg_policy_loss_backward_args *args)
{
    job j = {.g = GRPO_OF_POLICY(args),
             .logp = grpo_plane_of(args->logp),
             .dloss = grpo_plane_of(args->dloss),
             .dlogp = grpo_plane_of(args->dlogp)};
    TG_TRY(begin(ctx, &j));
    if (j.g.o.sequence) {
        each_item(ctx, &j, part_items);
        for (int64_t b = 0; b < j.g.batch && j.pieces; b++) {
            const double rated = j.sequences[b].rated;
            j.sums[b * j.pieces * SUMS + 1] = sum_of(&j, b, 0) / (rated < 1 ? 1 : rated);
        }
    }
    each_item(ctx, &j, backward_items);
    return TG_OK;
}

/* ---- implementations ---- */

/* A divergence with bias correction at sequence level is for the definition: its two ways to a
 * token cancel. */
static int accepts(const tg_grpo_options *o, const tg_tensor *const *planes)
{
    int floats = 1;
    for (int i = 0; i < 4; i++)
        floats &= !planes[i] || tg_el(tg_type_of(planes[i])) <= EL_F16;
    return floats && !(o->sequence && o->corrected);
}

#define ACCEPTS(args, last)                      \
    accepts(                                     \
        &(tg_grpo_options)TG_GRPO_OPTIONS(args), \
        (const tg_tensor *const[]){(args)->old_logp, (args)->ref_logp, (args)->is_ratio, last})

static int accepts_forward(const tg_policy_loss_forward_args *args)
{
    return ACCEPTS(args, args->kl);
}

static int accepts_backward(const tg_policy_loss_backward_args *args)
{
    return ACCEPTS(args, args->dloss);
}

TG_CPU_IMPLS(grpo_loss_policy) = {
    TG_CPU_IMPL_IF(policy_loss_forward, TG_TAKES_FLOATS, accepts_forward, forward),
    TG_CPU_IMPL_IF(policy_loss_backward, TG_TAKES_FLOATS, accepts_backward, backward),
    TG_IMPLS_END};
