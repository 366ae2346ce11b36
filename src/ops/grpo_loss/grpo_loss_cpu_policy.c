/* policy_loss on the CPU, forward: losses of tokens, and their sums in the order of the pieces. */
#include "grpo_loss_cpu.h"

/* Where a result of each token goes. */
static numbers results_of(const grpo_plane *p, int64_t b)
{
    const el type = (el)tg_el(p->type);
    char *data = p->data ? (char *)p->data + b * p->by_batch * el_size(type) : NULL;
    return (numbers){data, type, 0};
}

SIMD_INLINE void forward_run(const policy_span *p, const numbers *out, int64_t begin, int64_t end,
                             double *sums)
{
    vf loss = v_set(0.0f), kl = loss, clipped = loss;
    for (int64_t l = begin; l < end; l += VL) {
        const int64_t n = v_tail(end, l);
        const tokens t = tokens_of(p, l, n);
        loss += t.loss;
        kl += t.kl;
        clipped += t.clipped;
        numbers_put(&out[0], l, n, t.loss);
        numbers_put(&out[1], l, n, t.kl);
        numbers_put(&out[2], l, n, t.clipped);
    }
    sums[0] += v_sum(loss);
    sums[1] += v_sum(kl);
    sums[2] += v_sum(clipped);
}

static void forward_items(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const policy_job *j = arg;
    const grpo_plane none = {0};
    for (int64_t item = begin; item < end; item++) {
        const policy_span p = policy_span_of(j, item);
        numbers out[3];
        for (int i = 0; i < 3; i++)
            out[i] = results_of(j->g.o.each ? &j->out[i] : &none, p.b);
        double *sums = j->sums + item * SUMS;
        sums[0] = sums[1] = sums[2] = 0;
        for (int64_t l = p.begin; l < p.end; l += NUMBERS_RUN)
            forward_run(&p, out, l, p.end - l < NUMBERS_RUN ? p.end : l + NUMBERS_RUN, sums);
    }
}

static tg_status forward(tg_ctx *ctx, const tg_policy_loss_forward_args *args)
{
    policy_job j = {
        .g = GRPO_OF_POLICY(args),
        .logp = grpo_plane_of(args->logp),
        .out = {grpo_plane_of(args->loss), grpo_plane_of(args->kl), grpo_plane_of(args->clipped)}};
    TG_TRY(policy_begin(ctx, &j));
    policy_each(ctx, &j, forward_items);
    const double share = 1 / (j.g.kept < 1 ? 1 : j.g.kept);
    for (int i = 0; i < 3 && !j.g.o.each; i++) {
        double sum = 0;
        for (int64_t b = 0; b < j.g.batch; b++)
            sum += policy_sum(&j, b, i) * (i ? share : j.sequences[b].weight);
        grpo_put(&j.out[i], 0, 0, sum);
    }
    return TG_OK;
}

static int accepts(const tg_policy_loss_forward_args *args)
{
    const tg_grpo_options o = TG_GRPO_OPTIONS(args);
    return policy_takes(&o) &&
           numbers_are_floats(
               (const tg_tensor *const[]){args->old_logp, args->ref_logp, args->is_ratio}, 3);
}

TG_CPU_IMPLS(grpo_loss_policy) = {
    TG_CPU_IMPL_IF(policy_loss_forward, TG_TAKES_FLOATS, accepts, forward), TG_IMPLS_END};
