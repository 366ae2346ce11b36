/* softmax_kl_div.cu - the divergence of a row of logits' softmax from given probabilities, and the
 * gradient of the logits.
 *
 * Where only the loss is asked for, rows are read once where they lie (softmax_kl_div_once.cuh), if
 * there are enough of them. Else wide rows of logits stay in shared memory: they are read once, and
 * the target is read twice, from L2. Other rows are read again in each of three passes. */
#include "softmax_kl_div_once.cuh"

/* 1 if row r does not count, and has got its gradient of zeros. */
template <class T, class TEAM>
__device__ __forceinline__ static bool skip_row(const skl_args &a, const TEAM &t, int64_t r)
{
    const float zeros[V<T>] = {};
    if (batch_counts(a, r))
        return false;
    if (a.dlogits.data)
        for (int j = t.lane * V<T>; j < a.n; j += t.lanes * V<T>)
            store_dlogits<T>(a, r, j, zeros);
    return true;
}

/* ---- kernels ---- */

template <class T>
__global__ void __launch_bounds__(MOST_LANES) softmax_kl_div_kernel(const skl_args a)
{
    __shared__ team_memory memory;
    team t(&memory, a.lanes);
    const float factor = batch_factor(a);
    double loss = 0;
    for (int64_t r = t.first; r < a.rows; r += t.step) {
        const walked_row<T> logits = {a.logits.row<T>(r)};
        if (!skip_row<T>(a, t, r))
            loss += run_row<T>(a, t, logits, r, factor);
    }
    batch_leave(a, t, loss);
}

/* This thread's chunks of the target come to L2 while the largest logit is looked for. */
template <class T>
__device__ __forceinline__ static void fetch_target(const skl_args &a, const logits_team &t,
                                                    int64_t r)
{
    const int size = a.target_type == TG_F32 ? 4 : 2;
    for (int j = t.lane * V<T>; j < a.n; j += t.lanes * V<T>)
        asm volatile("prefetch.global.L2 [%0];" ::"l"(a.target.row<char>(r) + (int64_t)j * size));
}

template <class T>
__global__ void __launch_bounds__(LOGITS_THREADS, 3)
    held_softmax_kl_div_kernel(const __grid_constant__ skl_args a)
{
    extern __shared__ uint4 held[];
    __shared__ logits_team::room memory;
    logits_team t(&memory);
    const held_logits<T> logits = {held};
    float loss = 0;
    if (!skip_row<T>(a, t, t.row)) {
        logits.take(t, a.logits.row<T>(t.row), a.n);
        fetch_target<T>(a, t, t.row);
        t.begin();
        wait_for_copies();
        loss = run_row<T>(a, t, logits, t.row, batch_factor(a));
    }
    if (a.partial && t.lane == 0)
        a.partial[t.row] = loss;
}

/* ---- the host's side ---- */

/* What both directions are given. */
struct skl_call {
    batch_call batch;
    const tg_tensor *logits, *target;
    tg_tensor *dlogits;
    double eps;
};

/* The loss alone of enough rows for a block each. */
static bool reads_once(const cuda_call &call, const skl_args &a)
{
    return a.partial && !a.dlogits.data && !few_rows(call, a.rows);
}

template <class T> static void launch_once(const cuda_call &call, const skl_args &a)
{
    const auto kernel = a.target_type == TG_F32    ? softmax_kl_div_once_kernel<T, whole<float>>
                        : a.target_type == TG_BF16 ? softmax_kl_div_once_kernel<T, whole<bf16>>
                                                   : softmax_kl_div_once_kernel<T, whole<f16>>;
    kernel<<<(unsigned)a.rows, ONCE_LANES, 0, call.stream>>>(a);
}

/* Returns how many sums of losses there will be. */
template <class T>
static int64_t launch(const cuda_call &call, skl_args a, const held_shape &held, int64_t most)
{
    if constexpr (element<T>::WHOLE) {
        if (reads_once(call, a)) {
            launch_once<T>(call, a);
            return a.rows;
        }
        launch_held(call, held, held_softmax_kl_div_kernel<T>, a);
        return a.rows;
    }
    const row_shape s = shape_rows(a.rows, ceil_div(a.n, V<T>), FEW, MOST_LANES);
    const int64_t blocks = min_of(most, s.blocks);
    a.lanes = s.lanes;
    softmax_kl_div_kernel<T><<<(unsigned)blocks, s.threads, 0, call.stream>>>(a);
    return blocks;
}

static tg_status run_rows(const cuda_call &call, const skl_call &c, skl_args a)
{
    const tg_tensor *const tensors[] = {c.logits, c.target, c.dlogits};
    const int size = (int)tg_type_size(tg_type_of(c.logits));
    held_shape held = hold_rows(call, LOGITS_THREADS, a.rows, (int64_t)a.n * size, 1);
    held.cluster = are_whole(tensors, 3) ? held.cluster : 0;
    const int64_t blocks = (int64_t)call.processors * DIVERGENCE_BLOCKS,
                  most = held.cluster ? a.rows : blocks;
    double *memory = batch_shares(call, c.batch, most, &a);
    if (!memory)
        return TG_ENOMEM;
    int64_t parts = 0;
    if (a.rows > 0 && a.n > 0)
        by_wholeness(c.logits, held.cluster > 0,
                     [&](auto e) { parts = launch<decltype(e)>(call, a, held, most); });
    batch_total(call, c.batch, a, memory, parts);
    return TG_OK;
}

static tg_status run(tg_ctx *ctx, const skl_call &c)
{
    skl_args a = {};
    cuda_call call;
    batch_begin(c.batch, c.logits, &a);
    a.logits = span_of(c.logits);
    a.target = span_of(c.target);
    a.dlogits = span_of(c.dlogits);
    a.target_type = tg_type_of(c.target);
    a.dlogits_type = c.dlogits ? tg_type_of(c.dlogits) : 0;
    a.per_temperature = (float)(1 / c.batch.temperature);
    a.eps = (float)c.eps;
    tg_status status = check_width(c.batch.of.op, width_of(c.logits));
    if (status == TG_OK)
        status = cuda_begin(&call, ctx, c.batch.of.op, c.logits);
    return status == TG_OK ? cuda_end(&call, run_rows(call, c, a)) : status;
}

/* The arguments that both directions have. */
template <class ARGS> static skl_call call_of(const char *op, const ARGS *args)
{
    skl_call c = {batch_call_of(op, args), args->logits, args->target, args->dlogits, 0};
    c.batch.of.reduction = args->reduction;
    return c;
}

CUDA_OPERATOR(softmax_kl_div_forward, TG_TAKES_FLOATS);
CUDA_OPERATOR(softmax_kl_div_backward, TG_TAKES_FLOATS);

tg_status cuda_softmax_kl_div_forward(tg_ctx *ctx, const tg_softmax_kl_div_forward_args *args)
{
    skl_call c = call_of("softmax_kl_div_forward", args);
    c.batch.of.loss = args->loss;
    c.eps = args->eps;
    return run(ctx, c);
}

tg_status cuda_softmax_kl_div_backward(tg_ctx *ctx, const tg_softmax_kl_div_backward_args *args)
{
    return run(ctx, call_of("softmax_kl_div_backward", args));
}
