/* grpo_loss.cu - losses of policy gradients: log-probabilities of tokens from their logits
 * (tokens.cuh) or, of policy_loss, as they are given, and one number a token from there on, in
 * double (grpo_kernels.cuh). */
#include "grpo_kernels.cuh"

/* Of the argument struct of either direction. */
template <class ARGS> static grpo_options options_of(const ARGS *args)
{
    grpo_options o;
    o.type = (int)args->loss_type;
    o.sequence = (int)args->importance_sampling_level;
    o.each = args->reduction == TG_NONE;
    o.corrected = (int)args->use_bias_correction_kl;
    o.length = (double)args->max_completion_length;
    o.beta = args->beta;
    o.low = args->eps_low;
    o.high = args->eps_high;
    o.delta = args->delta;
    o.items = args->num_items_in_batch;
    o.sapo_pos = args->sapo_temperature_pos;
    o.sapo_neg = args->sapo_temperature_neg;
    o.k_pos = args->vespo_k_pos;
    o.lambda_pos = args->vespo_lambda_pos;
    o.k_neg = args->vespo_k_neg;
    o.lambda_neg = args->vespo_lambda_neg;
    return o;
}

/* What all have. */
template <class ARGS> static grpo_args args_of(const ARGS *args)
{
    grpo_args a = {};
    a.o = options_of(args);
    a.advantages = token_plane_of(args->advantages);
    a.old_logp = token_plane_of(args->old_logp);
    a.ref_logp = token_plane_of(args->ref_logp);
    a.is_ratio = token_plane_of(args->is_ratio);
    return a;
}

/* Of logits, logp in the workspace. *memory: room for `more` doubles. */
template <class ARGS>
static tg_status args_of_logits(const cuda_call &call, const ARGS *args, int64_t more, grpo_args *a,
                                double **memory)
{
    const int64_t count = tg_numel(args->target);
    *a = args_of(args);
    a->k = tokens_of(call, args->logits, args->target, args->mask, args->temperature);
    *memory = (double *)cuda_host->device_workspace(
        call.ctx, (size_t)more * sizeof(double) + (size_t)count * sizeof(float) + 1);
    a->logp = token_plane_at((float *)(*memory + more), a->k.length);
    return *memory ? TG_OK : TG_ENOMEM;
}

/* Blocks of a sequence. */
static int64_t slices_of(int64_t length)
{
    return min_of(GRPO_SLICES, length ? ceil_div(length, GRPO_THREADS) : 1);
}

/* A block for each slice of each sequence. */
template <class KERNEL>
static void launch_sequences(const cuda_call &call, const grpo_args &a, int64_t slices,
                             KERNEL kernel)
{
    if (a.k.batch)
        launch_behind(call, kernel, dim3((unsigned)a.k.batch, (unsigned)slices), GRPO_THREADS, a);
}

/* Losses from log-probabilities of T or f32; `typed` tells T. */
template <class ARGS>
static void launch_losses(const cuda_call &call, grpo_args &a, double *partial, int64_t slices,
                          const tg_tensor *typed, const ARGS *args)
{
    a.partial = a.o.each ? NULL : partial;
    a.loss = token_plane_of(args->loss);
    a.kl = token_plane_of(args->kl);
    a.clipped = token_plane_of(args->clipped);
    by_type(typed, [&](auto e) { launch_sequences(call, a, slices, grpo_kernel<decltype(e)>); });
    if (!a.o.each)
        launch_behind(call, grpo_total_kernel, 1, ALL_TOKENS_THREADS, partial, a.k.batch * slices,
                      counts_all(a.o), (float *)data_of(args->loss), (float *)data_of(args->kl),
                      (float *)data_of(args->clipped));
}

/* Where all tokens count, how many there are. */
static void launch_count(const cuda_call &call, grpo_args &a, double *all)
{
    if (a.o.each || !counts_all(a.o))
        return;
    a.all = all;
    grpo_count_kernel<<<1, ALL_TOKENS_THREADS, 0, call.stream>>>(a, all);
}

static void launch_gradients(const cuda_call &call, const grpo_args &a, const tg_tensor *typed)
{
    const int64_t slices = a.o.sequence || a.o.type == TG_VESPO ? 1 : slices_of(a.k.length);
    by_type(typed,
            [&](auto e) { launch_sequences(call, a, slices, grpo_gradient_kernel<decltype(e)>); });
}

/* ---- grpo_loss ---- */

static tg_status forward(const cuda_call &call, const tg_grpo_loss_forward_args *args)
{
    grpo_args a;
    double *partial;
    const int64_t batch = args->target->shape[0], slices = slices_of(args->target->shape[1]);
    const tg_status status = args_of_logits(call, args, 4 * batch * slices, &a, &partial);
    if (status != TG_OK)
        return status;
    launch_log_probabilities(call, a.k, args->logits, a.logp, token_plane_of(args->lse),
                             token_plane_of(NULL));
    launch_losses(call, a, partial, slices, args->logits, args);
    return TG_OK;
}

static tg_status backward(const cuda_call &call, const tg_grpo_loss_backward_args *args)
{
    grpo_args a;
    double *all;
    const token_plane lse = token_plane_of(args->lse);
    const tg_status status = args_of_logits(call, args, 1, &a, &all);
    if (status != TG_OK)
        return status;
    a.dloss = token_plane_of(args->dloss);
    a.dlogp = a.logp;
    launch_count(call, a, all);
    launch_log_probabilities(call, a.k, args->logits, a.logp, token_plane_of(NULL), lse);
    launch_gradients(call, a, args->logits);
    launch_logit_gradients(call, a.k, args->logits, args->dlogits, lse, a.logp);
    return TG_OK;
}

CUDA_OPERATOR(grpo_loss_forward, TG_TAKES_FLOATS);
CUDA_OPERATOR(grpo_loss_backward, TG_TAKES_FLOATS);

tg_status cuda_grpo_loss_forward(tg_ctx *ctx, const tg_grpo_loss_forward_args *args)
{
    static const char op[] = "grpo_loss_forward";
    cuda_call call;
    tg_status status = begin_rows(&call, ctx, op, args->logits);
    if (status != TG_OK)
        return status;
    status = forward(call, args);
    return cuda_end(&call, status);
}

tg_status cuda_grpo_loss_backward(tg_ctx *ctx, const tg_grpo_loss_backward_args *args)
{
    static const char op[] = "grpo_loss_backward";
    cuda_call call;
    tg_status status = begin_rows(&call, ctx, op, args->logits);
    if (status != TG_OK)
        return status;
    status = backward(call, args);
    return cuda_end(&call, status);
}

/* ---- policy_loss ---- */

/* *memory: room for `doubles`. */
template <class ARGS>
static tg_status args_of_tokens(const cuda_call &call, const ARGS *args, int64_t doubles,
                                grpo_args *a, double **memory)
{
    *a = args_of(args);
    a->k.batch = args->logp->shape[0];
    a->k.length = args->logp->shape[1];
    a->k.logits.rows = a->k.batch * a->k.length;
    a->k.mask = token_plane_of(args->mask);
    a->ratio_mask = token_plane_of(args->ratio_mask);
    a->logp = token_plane_of(args->logp);
    *memory = (double *)cuda_host->device_workspace(call.ctx, (size_t)doubles * sizeof(double) + 1);
    return *memory ? TG_OK : TG_ENOMEM;
}

CUDA_OPERATOR(policy_loss_forward, TG_TAKES_FLOATS);
CUDA_OPERATOR(policy_loss_backward, TG_TAKES_FLOATS);

tg_status cuda_policy_loss_forward(tg_ctx *ctx, const tg_policy_loss_forward_args *args)
{
    cuda_call call;
    grpo_args a;
    double *partial;
    const int64_t batch = args->logp->shape[0], slices = slices_of(args->logp->shape[1]);
    tg_status status = begin_rows(&call, ctx, "policy_loss_forward", args->logp);
    if (status != TG_OK)
        return status;
    status = args_of_tokens(call, args, 4 * batch * slices, &a, &partial);
    if (status == TG_OK)
        launch_losses(call, a, partial, slices, args->logp, args);
    return cuda_end(&call, status);
}

tg_status cuda_policy_loss_backward(tg_ctx *ctx, const tg_policy_loss_backward_args *args)
{
    cuda_call call;
    grpo_args a;
    double *all;
    tg_status status = begin_rows(&call, ctx, "policy_loss_backward", args->logp);
    if (status != TG_OK)
        return status;
    status = args_of_tokens(call, args, 1, &a, &all);
    if (status == TG_OK) {
        a.dloss = token_plane_of(args->dloss);
        a.dlogp = token_plane_of(args->dlogp);
        launch_count(call, a, all);
        launch_gradients(call, a, args->logp);
    }
    return cuda_end(&call, status);
}
