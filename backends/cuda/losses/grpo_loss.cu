/* grpo_loss.cu - losses of policy gradients: log-probabilities of tokens from their logits
 * (tokens.cuh), and one number a token from there on, in double. A block has a sequence, or a slice
 * of it. */
#include "grpo_sequence.cuh"

/* ---- forward ---- */

__device__ __forceinline__ static void write_token(const grpo_args &a, int64_t b, int64_t l,
                                                   const grpo_token &t)
{
    *a.loss.at<float>(b, l) = (float)t.loss;
    if (a.kl.data)
        *a.kl.at<float>(b, l) = (float)t.kl;
    if (a.clipped.data)
        *a.clipped.at<float>(b, l) = (float)t.clipped;
}

template <class T>
__global__ void __launch_bounds__(GRPO_THREADS) grpo_kernel(const __grid_constant__ grpo_args a)
{
    const int64_t b = blockIdx.x;
    wait_for_the_kernel_before();
    const grpo_sequence s = sequence_of<T>(a, b);
    double sums[4] = {0, 0, 0, 0};
    for (int64_t l = (int64_t)blockIdx.y * GRPO_THREADS + threadIdx.x; l < a.k.length;
         l += (int64_t)gridDim.y * GRPO_THREADS) {
        int y;
        const token_state state = a.k.state(b, l, false, &y);
        grpo_token t = {0, 0, 0, 0, 0};
        if (state == TOKEN_KEPT)
            t = token_at<T>(a, s, b, l);
        if (a.o.each && state != TOKEN_REFUSED)
            write_token(a, b, l, t);
        sums[0] += s.weight * t.loss;
        sums[1] += t.kl;
        sums[2] += t.clipped;
        sums[3] += state == TOKEN_KEPT;
    }
    if (!a.partial)
        return;
    block_sum<GRPO_THREADS>(sums);
    if (threadIdx.x == 0)
#pragma unroll
        for (int k = 0; k < 4; k++)
            a.partial[4 * (b * gridDim.y + blockIdx.y) + k] = sums[k];
}

/* The number of tokens that are kept. */
__global__ void __launch_bounds__(ALL_TOKENS_THREADS)
    grpo_count_kernel(const __grid_constant__ grpo_args a, double *to)
{
    double count = 0;
    for (int64_t i = threadIdx.x; i < a.k.logits.rows; i += ALL_TOKENS_THREADS) {
        const int64_t b = i / a.k.length;
        count += keeps(a, b, i - b * a.k.length);
    }
    count = block_sum<ALL_TOKENS_THREADS>(count);
    if (threadIdx.x == 0)
        *to = count;
}

__global__ void __launch_bounds__(ALL_TOKENS_THREADS)
    grpo_total_kernel(const double *partial, int64_t count, bool by_all, float *loss, float *kl,
                      float *clipped)
{
    double sums[4] = {0, 0, 0, 0};
    wait_for_the_kernel_before();
    for (int64_t i = threadIdx.x; i < count; i += ALL_TOKENS_THREADS)
#pragma unroll
        for (int k = 0; k < 4; k++)
            sums[k] += partial[4 * i + k];
    block_sum<ALL_TOKENS_THREADS>(sums);
    if (threadIdx.x != 0)
        return;
    const double all = at_least_1(sums[3]);
    *loss = (float)(sums[0] / (by_all ? all : 1));
    if (kl)
        *kl = (float)(sums[1] / all);
    if (clipped)
        *clipped = (float)(sums[2] / all);
}

/* ---- backward ---- */

/* What a token's derivatives are multiplied by: what it counts, times what is upstream. */
__device__ __forceinline__ static double weight_at(const grpo_args &a, const grpo_sequence &s,
                                                   int64_t b, int64_t l)
{
    return s.weight * (a.dloss.data ? *a.dloss.at<float>(b, l) : 1);
}

/* At TG_SEQUENCE_LEVEL log rho is the mean of logp - old_logp, so each token gets an equal part of
 * what reaches it. That is added before anything is rounded to f32: with few tokens the
 * exponentials of a divergence cancel. */
template <class T>
__global__ void __launch_bounds__(GRPO_THREADS)
    grpo_gradient_kernel(const __grid_constant__ grpo_args a)
{
    const int64_t b = blockIdx.x;
    wait_for_the_kernel_before();
    const grpo_sequence s = sequence_of<T>(a, b);
    double shared[1] = {0};
    if (a.o.sequence) {
        for (int64_t l = threadIdx.x; l < a.k.length; l += GRPO_THREADS)
            if (keeps(a, b, l))
                shared[0] += weight_at(a, s, b, l) * token_at<T>(a, s, b, l).by_log_rho;
        block_total(shared);
    }
    for (int64_t l = (int64_t)blockIdx.y * GRPO_THREADS + threadIdx.x; l < a.k.length;
         l += (int64_t)gridDim.y * GRPO_THREADS) {
        if (!keeps(a, b, l))
            continue;
        const grpo_token t = token_at<T>(a, s, b, l);
        const double w = weight_at(a, s, b, l);
        *a.logp.at<float>(b, l) = (float)(a.o.sequence ? w * t.direct + shared[0] / s.kept
                                                       : w * (t.direct + t.by_log_rho));
    }
}

/* ---- the host's side ---- */

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

/* What both directions have, logp in the workspace. *memory: room for `more` doubles. */
template <class ARGS>
static tg_status args_of(const cuda_call &call, const ARGS *args, int64_t more, grpo_args *a,
                         double **memory)
{
    const int64_t count = tg_numel(args->target);
    *a = {};
    a->o = options_of(args);
    a->k = tokens_of(call, args->logits, args->target, args->mask, args->temperature);
    a->advantages = token_plane_of(args->advantages);
    a->old_logp = token_plane_of(args->old_logp);
    a->ref_logp = token_plane_of(args->ref_logp);
    a->is_ratio = token_plane_of(args->is_ratio);
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

static tg_status forward(const cuda_call &call, const tg_grpo_loss_forward_args *args)
{
    grpo_args a;
    double *partial;
    const int64_t batch = args->target->shape[0], slices = slices_of(args->target->shape[1]);
    const tg_status status = args_of(call, args, 4 * batch * slices, &a, &partial);
    if (status != TG_OK)
        return status;
    a.partial = a.o.each ? NULL : partial;
    a.loss = token_plane_of(args->loss);
    a.kl = token_plane_of(args->kl);
    a.clipped = token_plane_of(args->clipped);
    launch_log_probabilities(call, a.k, args->logits, a.logp, token_plane_of(args->lse),
                             token_plane_of(NULL));
    by_type(args->logits,
            [&](auto e) { launch_sequences(call, a, slices, grpo_kernel<decltype(e)>); });
    if (!a.o.each)
        launch_behind(call, grpo_total_kernel, 1, ALL_TOKENS_THREADS, partial, batch * slices,
                      counts_all(a.o), (float *)data_of(args->loss), (float *)data_of(args->kl),
                      (float *)data_of(args->clipped));
    return TG_OK;
}

static tg_status backward(const cuda_call &call, const tg_grpo_loss_backward_args *args)
{
    grpo_args a;
    double *all;
    const token_plane lse = token_plane_of(args->lse);
    const tg_status status = args_of(call, args, 1, &a, &all);
    if (status != TG_OK)
        return status;
    a.dloss = token_plane_of(args->dloss);
    if (!a.o.each && counts_all(a.o)) {
        a.all = all;
        grpo_count_kernel<<<1, ALL_TOKENS_THREADS, 0, call.stream>>>(a, all);
    }
    launch_log_probabilities(call, a.k, args->logits, a.logp, token_plane_of(NULL), lse);
    const int64_t slices = a.o.sequence || a.o.type == TG_VESPO ? 1 : slices_of(a.k.length);
    by_type(args->logits,
            [&](auto e) { launch_sequences(call, a, slices, grpo_gradient_kernel<decltype(e)>); });
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
