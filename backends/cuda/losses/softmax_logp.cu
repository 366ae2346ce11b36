/* softmax_logp.cu - log-probabilities, entropy and their gradient from a row of logits.
 *
 * A row is read for its largest logit, then, from L2, for the sums relative to it, and once more
 * for the gradient. */
#include "softmax_logp.cuh"

/* ---- forward ---- */

/* Of the class at `place`, -1 for another slice's. */
template <class T>
__device__ __forceinline__ static float logp_at(const slogp_args &a, const slogp_sums &s,
                                                const T *row, int64_t place)
{
    if (place < 0)
        return 0;
    if (a.slice)
        return capped<true>(get(row + place), a.softcap) * a.per_temperature;
    const float log_sum = log1pf(s.others);
    return place == s.best ? -log_sum : distance(a, get(row + place), s.max) - log_sum;
}

__device__ __forceinline__ static int64_t place_of(const slogp_args &a, int64_t id)
{
    const int64_t place = id - a.start;
    return place >= 0 && place < a.n ? place : -1;
}

template <class T>
__device__ __forceinline__ static void write_results(const slogp_args &a, const slogp_sums &s,
                                                     const team &t, const T *row, int64_t r)
{
    for (int k = t.lane; a.selected && k < a.count; k += t.lanes)
        if (a.ids_range.holds(k, a.ids[k], true))
            a.selected[r * a.count + k] = logp_at(a, s, row, place_of(a, a.ids[k]));
    if (t.lane != 0)
        return;
    const float log_sum = log1pf(s.others);
    a.logp[r] = logp_at(a, s, row, place_of(a, a.target[r]));
    if (a.lse)
        a.lse[r] = s.max == -CUDART_INF_F ? s.max : s.max * a.per_temperature + log_sum;
    if (a.entropy)
        a.entropy[r] = log_sum + s.gaps / (1 + s.others);
    if (a.mean)
        a.mean[r] = s.total / a.n;
    if (a.squares)
        a.squares[r] = log1pf(s.squares) - 2 * log_sum;
    if (a.predicted)
        a.predicted[r] = s.best;
}

__device__ __forceinline__ static void write_ignored(const slogp_args &a, const team &t, int64_t r)
{
    float *const zeros[] = {a.logp, a.lse, a.entropy, a.mean, a.squares};
    for (int k = t.lane; a.selected && k < a.count; k += t.lanes)
        a.selected[r * a.count + k] = 0;
    if (t.lane != 0)
        return;
#pragma unroll
    for (int i = 0; i < 5; i++)
        if (zeros[i])
            zeros[i][r] = 0;
    if (a.predicted)
        a.predicted[r] = -1;
}

/* ---- backward ---- */

/* p = factor exp(d), log p + entropy = d + mean_gap; upstream gradients: of the target, of the
 * entropy, of all log-probabilities. */
struct slogp_slopes {
    float max, factor, mean_gap, doubt; /* doubt: 1 - p of `best` */
    int best;                           /* -1: of none it is known */
    float logp, entropy, all, scale;
};

template <class T>
__device__ __forceinline__ static slogp_slopes slopes_of(const slogp_args &a, team &t,
                                                         const walked_row<T> &logits, int64_t r)
{
    slogp_slopes g;
    if (a.slice) {
        const float lse = a.saved_lse[r];
        g.max = lse * a.temperature;
        const float shift = g.max * a.per_temperature - lse;
        g.factor = expf(shift);
        g.mean_gap = shift + (a.saved_entropy ? a.saved_entropy[r] : 0);
        g.doubt = 0;
        g.best = -1;
    } else {
        const slogp_sums s = sums_of(a, t, logits);
        const float sum = 1 + s.others;
        g = {s.max, 1 / sum, s.gaps / sum, s.others / sum, s.best};
    }
    g.logp = g.all = a.dlogp[r];
    g.entropy = a.dentropy ? a.dentropy[r] : 0;
    for (int k = 0; a.dselected && k < a.count; k++)
        if (a.ids_range.holds(k, a.ids[k], t.lane == 0))
            g.all += a.dselected[r * a.count + k];
    g.scale = a.grad_scale * a.per_temperature;
    return g;
}

/* At a class that upstream gradients name: from 1 - p, and from the upstream gradients of the
 * others. */
__device__ __forceinline__ static float named_gradient(const slogp_args &a, const slogp_slopes &g,
                                                       int64_t r, int64_t place, float d)
{
    const float p = g.factor * expf(d), q = place == g.best ? g.doubt : 1 - p;
    const bool is_target = place_of(a, a.target[r]) == place;
    float own = is_target ? g.logp : 0, others = is_target ? 0 : g.logp;
    for (int k = 0; a.dselected && k < a.count; k++) {
        const float u = a.dselected[r * a.count + k];
        const bool is = place_of(a, a.ids[k]) == place;
        own += is ? u : 0;
        others += is ? 0 : u;
    }
    return own * q - others * p - (g.entropy != 0 && p != 0 ? g.entropy * p * (d + g.mean_gap) : 0);
}

/* The place that name k has: the target's, then those of ids. */
__device__ __forceinline__ static int64_t named_place(const slogp_args &a, int64_t r, int k)
{
    return place_of(a, k < 0 ? a.target[r] : a.ids[k]);
}

template <class T>
__device__ __forceinline__ static void write_row(const slogp_args &a, const team &t,
                                                 const walked_row<T> &logits, int64_t r,
                                                 const slogp_slopes &g)
{
    char *const row = a.dlogits.row(r);
    const int names = a.dselected ? a.count : 0;
    logits.walk(t, a.n, true, [&](int j, float(&v)[V<T>]) {
        float d[V<T>];
#pragma unroll
        for (int i = 0; i < V<T>; i++) {
            const float e = distance(a, v[i], g.max), p = g.factor * exp_term(e);
            d[i] = -g.all * p;
            if (g.entropy != 0 && p != 0)
                d[i] -= g.entropy * p * (e + g.mean_gap);
        }
        for (int k = -1; k < names; k++) {
            const int64_t place = named_place(a, r, k);
            if (place < j || place >= j + V<T>)
                continue;
#pragma unroll
            for (int i = 0; i < V<T>; i++)
                if (j + i == place)
                    d[i] = named_gradient(a, g, r, place, distance(a, v[i], g.max));
        }
#pragma unroll
        for (int i = 0; i < V<T>; i++) {
            d[i] *= g.scale;
            if (a.softcap > 0)
                d[i] *= softcap_slope(v[i], a.softcap);
        }
        store_gradient<T>(a, row, j, d);
    });
}

/* ---- both ---- */

template <class T> __global__ void __launch_bounds__(MOST_LANES) slogp_kernel(const slogp_args a)
{
    __shared__ team_memory memory;
    team t(&memory, a.lanes);
    for (int64_t r = t.first; r < a.logits.rows; r += t.step) {
        const walked_row<T> logits = {(const T *)a.logits.row(r)};
        const int64_t target = a.target[r];
        if (target == a.ignore_index) {
            if (a.dlogp)
                write_zeros<T>(a, t, r);
            else
                write_ignored(a, t, r);
        } else if (!a.range.holds(r, target, t.lane == 0)) {
            continue;
        } else if (a.dlogp) {
            const slogp_slopes g = slopes_of(a, t, logits, r);
            t.barrier(); /* all have their sums: dlogits may be the same memory */
            write_row(a, t, logits, r, g);
        } else {
            write_results(a, sums_of(a, t, logits), t, logits.row, r);
        }
    }
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

static void launch(const cuda_call &call, const tg_tensor *logits, const tg_tensor *dlogits,
                   slogp_args a)
{
    const tg_tensor *const tensors[] = {logits, dlogits};
    if (a.logits.rows == 0)
        return;
    by_wholeness(logits, are_whole(tensors, 2), [&](auto e) {
        using T = decltype(e);
        const row_shape s = shape_rows(a.logits.rows, ceil_div(a.n, V<T>), CHUNKS_OF_A_THREAD,
                                       dlogits ? GRADIENT_LANES : LOSS_LANES);
        a.lanes = s.lanes;
        slogp_kernel<T><<<(unsigned)s.blocks, s.threads, 0, call.stream>>>(a);
    });
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
