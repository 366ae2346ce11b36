/* preference_loss on the CPU: a vector of pairs at a time, on all threads (preference_loss_cpu.h).
 * What is summed of a piece is added up in double in the order of the pieces. */
#include "preference_loss_cpu.h"

/* ---- forward ---- */

SIMD_INLINE double forward_run(const pair_job *j, const pair_options *o, int64_t begin, int64_t end)
{
    vf sum = v_set(0.0f);
    for (int64_t i = begin; i < end; i += VL) {
        const int64_t n = v_tail(end, i);
        vf ratio[2];
        const pairs t = pairs_at(j, o, i, n, ratio);
        sum += t.loss;
        numbers_put(&j->loss, i, n, t.loss);
        numbers_put(&j->margin, i, n, t.margin);
        numbers_put(&j->rewards[0], i, n, o->beta * ratio[0]);
        numbers_put(&j->rewards[1], i, n, o->beta * ratio[1]);
    }
    return v_sum(sum);
}

static void forward_items(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const pair_job *j = arg;
    const pair_options o = pair_options_of(&j->p);
    for (int64_t item = begin; item < end; item++) {
        const int64_t first = item * PIECE, last = pair_piece_end(j, first, PIECE);
        double sum = 0;
        for (int64_t i = first; i < last; i += NUMBERS_RUN)
            sum += forward_run(j, &o, i, last - i < NUMBERS_RUN ? last : i + NUMBERS_RUN);
        j->sums[item] = sum;
    }
}

/* ---- backward ---- */

/* A pair is read before it is written: dlogp may be logp. */
static void backward_items(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const pair_job *j = arg;
    const pair_options o = pair_options_of(&j->p);
    for (int64_t item = begin; item < end; item++) {
        const int64_t first = item * PIECE, last = pair_piece_end(j, first, PIECE);
        for (int64_t i = first; i < last; i += VL) {
            const int64_t n = v_tail(last, i);
            vf ratio[2];
            const pairs t = pairs_at(j, &o, i, n, ratio);
            const vf up = v_set(j->share) * numbers_get(&j->dloss, i, n);
            numbers_put(&j->dlogp[0], i, n, up * t.by_a);
            numbers_put(&j->dlogp[1], i, n, up * t.by_b);
        }
    }
}

static tg_status forward(tg_ctx *ctx, const tg_preference_loss_forward_args *args)
{
    const preference p = PREFERENCE_OF(args);
    pair_job j = pair_job_of(&p);
    const int64_t items = pair_items(&j);
    for (int64_t c = 0; c < p.logp->shape[0]; c++)
        j.rewards[c] = pair_results(args->rewards, c, p.count);
    j.margin = pair_results(args->margin, 0, p.count);
    if (p.reduction == TG_NONE)
        j.loss = pair_results(args->loss, 0, p.count);
    j.sums = tg_workspace(ctx, (size_t)(items + 1) * sizeof *j.sums);
    if (!j.sums)
        return TG_ENOMEM;
    tg_parallel_for(ctx, items, rows_worth(PIECE, ROWS_WORTH), forward_items, &j);
    if (p.reduction == TG_NONE)
        return TG_OK;
    double sum = 0;
    for (int64_t i = 0; i < items; i++)
        sum += j.sums[i];
    *(float *)tg_data(args->loss) = (float)(sum * preference_share(&p));
    return TG_OK;
}

static tg_status backward(tg_ctx *ctx, const tg_preference_loss_backward_args *args)
{
    const preference p = PREFERENCE_OF(args);
    pair_job j = pair_job_of(&p);
    j.dloss = pair_numbers(args->dloss, 0, p.count, 1);
    for (int64_t c = 0; c < p.logp->shape[0]; c++)
        j.dlogp[c] = pair_results(args->dlogp, c, p.count);
    tg_parallel_for(ctx, pair_items(&j), rows_worth(PIECE, ROWS_WORTH), backward_items, &j);
    return TG_OK;
}

/* ---- implementations ---- */

static int accepts_forward(const tg_preference_loss_forward_args *args)
{
    return numbers_are_floats((const tg_tensor *const[]){args->ref_logp, args->kl}, 2);
}

static int accepts_backward(const tg_preference_loss_backward_args *args)
{
    return numbers_are_floats((const tg_tensor *const[]){args->ref_logp, args->kl, args->dloss}, 3);
}

TG_CPU_IMPLS(preference_loss) = {
    TG_CPU_IMPL_IF(preference_loss_forward, TG_TAKES_FLOATS, accepts_forward, forward),
    TG_CPU_IMPL_IF(preference_loss_backward, TG_TAKES_FLOATS, accepts_backward, backward),
    TG_IMPLS_END};
