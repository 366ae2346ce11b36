/* policy_loss on the CPU, backward: gradients of tokens. */
#include "grpo_loss_cpu.h"

/* At TG_SEQUENCE_LEVEL: what reaches log rho. */
static void part_items(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const policy_job *j = arg;
    for (int64_t item = begin; item < end; item++) {
        const policy_span p = policy_span_of(j, item);
        const numbers dloss = policy_numbers(&j->dloss, p.b, 1);
        double *sums = j->sums + item * SUMS;
        sums[0] = 0;
        for (int64_t run = p.begin; run < p.end; run += NUMBERS_RUN) {
            const int64_t last = p.end - run < NUMBERS_RUN ? p.end : run + NUMBERS_RUN;
            vf sum = v_set(0.0f);
            for (int64_t l = run; l < last; l += VL) {
                const int64_t n = v_tail(last, l);
                sum += numbers_get(&dloss, l, n) * tokens_of(&p, l, n).by_log_rho;
            }
            sums[0] += v_sum(sum) * p.s->weight;
        }
    }
}

static numbers gradients_of(const policy_job *j, int64_t b)
{
    const el type = (el)tg_el(j->dlogp.type);
    return (numbers){(char *)j->dlogp.data + b * j->dlogp.by_batch * el_size(type), type, 0};
}

/* A token is read before it is written: dlogp may be logp. */
static void backward_items(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const policy_job *j = arg;
    const grpo *g = &j->g;
    for (int64_t item = begin; item < end; item++) {
        const policy_span p = policy_span_of(j, item);
        const numbers dloss = policy_numbers(&j->dloss, p.b, 1), dlogp = gradients_of(j, p.b);
        const vf weight = v_set((float)p.s->weight), zero = v_set(0.0f);
        const vf part = v_set(g->o.sequence ? (float)j->sums[p.b * j->pieces * SUMS + 1] : 0.0f);
        for (int64_t l = p.begin; l < p.end; l += VL) {
            const int64_t n = v_tail(p.end, l);
            const tokens t = tokens_of(&p, l, n);
            const vi kept = kept_of(&g->mask, p.b, l, n);
            const vf up = weight * numbers_get(&dloss, l, n);
            const vf d = up * (g->o.sequence ? t.direct : t.direct + t.by_log_rho);
            vf sum = v_select(kept, d, zero);
            if (g->o.sequence)
                sum += v_select(kept_of(&g->ratio_mask, p.b, l, n), part, zero);
            numbers_put(&dlogp, l, n, sum);
        }
    }
}

static tg_status backward(tg_ctx *ctx, const tg_policy_loss_backward_args *args)
{
    policy_job j = {.g = GRPO_OF_POLICY(args),
                    .logp = grpo_plane_of(args->logp),
                    .dloss = grpo_plane_of(args->dloss),
                    .dlogp = grpo_plane_of(args->dlogp)};
    TG_TRY(policy_begin(ctx, &j));
    if (j.g.o.sequence) {
        policy_each(ctx, &j, part_items);
        for (int64_t b = 0; b < j.g.batch && j.pieces; b++) {
            const double rated = j.sequences[b].rated;
            j.sums[b * j.pieces * SUMS + 1] = policy_sum(&j, b, 0) / (rated < 1 ? 1 : rated);
        }
    }
    policy_each(ctx, &j, backward_items);
    return TG_OK;
}

static int accepts(const tg_policy_loss_backward_args *args)
{
    const tg_grpo_options o = TG_GRPO_OPTIONS(args);
    return policy_takes(&o) &&
           numbers_are_floats((const tg_tensor *const[]){args->old_logp, args->ref_logp,
                                                         args->is_ratio, args->dloss},
                              4);
}

TG_CPU_IMPLS(grpo_loss_policy_backward) = {
    TG_CPU_IMPL_IF(policy_loss_backward, TG_TAKES_FLOATS, accepts, backward), TG_IMPLS_END};
