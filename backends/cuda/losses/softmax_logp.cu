/* softmax_logp.cu - log-probabilities, entropy and their gradient from a row of logits.
 *
 * The log-probability of the target alone, and its gradient, are one pass over a row in memory.
 * Where more is asked for, wide rows of whole chunks are read once, into the shared memory of a
 * block or a cluster, as they are where there are too few rows for a block each. Others are read in
 * each pass: for the largest logit, for the sums relative to it, and once more for the gradient. */
#include "softmax_logp_rows.cuh"

/* ---- both directions ---- */

/* What is asked of a row. row: it in memory; come: waits until it is where `logits` has it. */
template <class T, int MODE, class TEAM, class ROW, class COME>
__device__ __forceinline__ static void run_row(const slogp_args &a, TEAM &t, const ROW &logits,
                                               const T *row, int64_t r, const COME &come)
{
    if constexpr (MODE == LOGP_ALONE) {
        const int y = (int)place_of(a, a.target[r]);
        const float x = get(row + max(y, 0));
        come();
        run_alone<T>(a, t, logits, r, y, x);
    } else {
        come();
        if (!a.dlogp) {
            write_results<T, MODE>(a, sums_of<T, MODE>(a, t, logits), t, row, r);
            return;
        }
        const slogp_slopes g = slopes_of<T, MODE>(a, t, logits, r);
        t.barrier(); /* all have their sums: dlogits may be the same memory */
        write_row<T, MODE>(a, t, logits, r, g);
    }
}

/* 1 if row r has no target, and nothing is left to do. */
template <class T, class TEAM>
__device__ __forceinline__ static bool skip_row(const slogp_args &a, const TEAM &t, int64_t r)
{
    const int64_t target = a.target[r];
    if (target != a.ignore_index)
        return !a.range.holds(r, target, t.lane == 0);
    if (a.dlogp)
        write_zeros<T>(a, t, r);
    else
        write_ignored(a, t, r);
    return true;
}

template <class T, int MODE>
__global__ void __launch_bounds__(MOST_LANES) slogp_kernel(const slogp_args a)
{
    __shared__ team_memory memory;
    team t(&memory, a.lanes);
    for (int64_t r = t.first; r < a.logits.rows; r += t.step) {
        const T *const row = (const T *)a.logits.row(r);
        const walked_row<T> logits = {row};
        if (!skip_row<T>(a, t, r))
            run_row<T, MODE>(a, t, logits, row, r, [] {});
    }
}

/* The same for wide rows: all of a row is under way at once, and it is read but once. */
template <class T, int MODE>
__global__ void __launch_bounds__(LOGITS_THREADS, MODE == LOGP_ALONE ? 3 : 2)
    held_slogp_kernel(const __grid_constant__ slogp_args a)
{
    extern __shared__ uint4 held[];
    __shared__ logits_team::room memory;
    logits_team t(&memory);
    const T *const row = (const T *)a.logits.row(t.row);
    const held_logits<T> logits = {held};
    if (skip_row<T>(a, t, t.row))
        return;
    logits.take(t, row, a.n);
    run_row<T, MODE>(a, t, logits, row, t.row, [&] {
        t.begin();
        wait_for_copies();
    });
}

/* ---- the host's side ---- */

/* What both directions have. */
template <class ARGS> static slogp_args slogp_args_of(const cuda_call &call, const ARGS *args)
{
    slogp_args a = {};
    a.logits = plane_of(args->logits);
    a.target = (const int64_t *)data_of(args->target);
    a.ids = (const int64_t *)data_of(args->selected_ids);
    a.count = args->selected_ids ? (int)tg_numel(args->selected_ids) : 0;
    a.ignore_index = args->ignore_index;
    a.n = (int)width_of(args->logits);
    a.start = args->vocab_start;
    a.slice = args->vocab_size != 0;
    const int64_t vocab = args->vocab_size ? args->vocab_size : a.n;
    a.range = range_of(call, "target", vocab);
    a.ids_range = range_of(call, "selected_ids", vocab);
    a.softcap = (float)args->softcap;
    a.temperature = (float)args->temperature;
    a.per_temperature = (float)(1 / args->temperature);
    return a;
}

/* The kernels of a mode. Rows that are not held have those of both ends alone. */
template <class T, int MODE>
static bool launch_held_rows(const cuda_call &call, const slogp_args &a)
{
    if constexpr (element<T>::WHOLE) {
        const held_shape h =
            hold_rows(call, LOGITS_THREADS, a.logits.rows, (int64_t)a.n * (int)sizeof(T), 1);
        if (h.cluster)
            launch_held(call, h, held_slogp_kernel<T, MODE>, a);
        return h.cluster != 0;
    }
    return false;
}

template <class T> static void launch_rows(const cuda_call &call, slogp_args a, int mode)
{
    const bool few = few_rows(call, a.logits.rows);
    if (mode == LOGP_ALONE    ? few && launch_held_rows<T, LOGP_ALONE>(call, a)
        : mode == LOGP_CAPPED ? launch_held_rows<T, LOGP_CAPPED>(call, a)
                              : launch_held_rows<T, LOGP_ALL>(call, a))
        return;
    const row_shape s = shape_rows(a.logits.rows, ceil_div(a.n, V<T>), CHUNKS_OF_A_THREAD,
                                   a.dlogp ? GRADIENT_LANES : LOSS_LANES);
    a.lanes = s.lanes;
    if (mode == LOGP_ALONE)
        slogp_kernel<T, LOGP_ALONE><<<(unsigned)s.blocks, s.threads, 0, call.stream>>>(a);
    else
        slogp_kernel<T, LOGP_CAPPED><<<(unsigned)s.blocks, s.threads, 0, call.stream>>>(a);
}

static void launch(const cuda_call &call, const tg_tensor *logits, const tg_tensor *dlogits,
                   const slogp_args &a)
{
    const tg_tensor *const tensors[] = {logits, dlogits};
    const bool more =
        a.entropy || a.selected || a.mean || a.squares || a.predicted || a.dentropy || a.dselected;
    const int mode = a.softcap > 0 ? LOGP_CAPPED : more ? LOGP_ALL : LOGP_ALONE;
    if (a.logits.rows == 0)
        return;
    by_wholeness(logits, are_whole(tensors, 2),
                 [&](auto e) { launch_rows<decltype(e)>(call, a, mode); });
}

CUDA_OPERATOR(softmax_logp_forward, TG_TAKES_FLOATS);
CUDA_OPERATOR(softmax_logp_backward, TG_TAKES_FLOATS);

tg_status cuda_softmax_logp_forward(tg_ctx *ctx, const tg_softmax_logp_forward_args *args)
{
    cuda_call call;
    const tg_status status = begin_rows(&call, ctx, "softmax_logp_forward", args->logits);
    if (status != TG_OK)
        return status;
    slogp_args a = slogp_args_of(call, args);
    a.logp = (float *)data_of(args->logp);
    a.lse = (float *)data_of(args->lse);
    a.entropy = (float *)data_of(args->entropy);
    a.selected = (float *)data_of(args->selected);
    a.mean = (float *)data_of(args->mean_logits);
    a.squares = (float *)data_of(args->log_sum_sq_probs);
    a.predicted = (int64_t *)data_of(args->predicted);
    launch(call, args->logits, NULL, a);
    return cuda_end(&call, TG_OK);
}

tg_status cuda_softmax_logp_backward(tg_ctx *ctx, const tg_softmax_logp_backward_args *args)
{
    cuda_call call;
    const tg_status status = begin_rows(&call, ctx, "softmax_logp_backward", args->logits);
    if (status != TG_OK)
        return status;
    slogp_args a = slogp_args_of(call, args);
    a.dlogits = plane_of(args->dlogits);
    a.dlogits_type = tg_type_of(args->dlogits);
    a.saved_lse = (const float *)data_of(args->lse);
    a.saved_entropy = (const float *)data_of(args->entropy);
    a.dlogp = (const float *)data_of(args->dlogp);
    a.dentropy = (const float *)data_of(args->dentropy);
    a.dselected = (const float *)data_of(args->dselected);
    a.grad_scale = (float)args->grad_scale;
    launch(call, args->logits, args->dlogits, a);
    return cuda_end(&call, TG_OK);
}
