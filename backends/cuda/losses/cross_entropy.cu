/* cross_entropy.cu - the loss of a row of logits against its target, and the gradient.
 *
 * A row is read once for its sum of exponentials, or once for the gradient where lse is saved;
 * where both are asked for, a wide row is held in shared memory for its second pass. The target
 * stands apart from all sums: 1 - p_y and, for confident rows, the loss keep their digits
 * (README.md of the family).
 * With x the logits after softcap, m the largest, S = sum of exp(x - m), the gradient is
 *   g (A exp(x_i - m) / S - B w_i - C [i = y]) slope_i */
#include "cross_entropy_totals.cuh"

/* ---- a row's results ---- */

__device__ __forceinline__ static void write_row(const loss_args &a, int64_t r, loss_terms v,
                                                 float lse, int64_t largest)
{
    if (a.lse)
        a.lse[r] = lse;
    if (a.predicted)
        a.predicted[r] = largest;
    if (a.terms)
        a.terms[r] = v;
    if (!a.each)
        return;
    a.loss[r] = v.loss;
    if (a.z_loss)
        a.z_loss[r] = v.z;
    if (a.accuracy)
        a.accuracy[r] = (float)v.hit;
}

__device__ __forceinline__ static loss_terms
terms_of(const loss_args &a, const row_sums &s, const row_odds &o, const loss_counts &c, int y)
{
    if (a.slice) { /* what it adds beside the terms of lse */
        const float hit = y < 0 ? 0 : (1 - a.smoothing) * s.x_y;
        const float even = a.smoothing != 0 ? a.smoothing / a.vocab * s.weighted : 0;
        return loss_terms{-(hit + even) * c.per_ce, 0, 0};
    }
    const float w_y = a.class_weight ? a.class_weight[y] : 1;
    float ce = (1 - a.smoothing) * w_y * o.minus_log_p;
    if (a.smoothing != 0)
        ce += a.smoothing / a.vocab *
              (c.class_weights * o.log_sum - (s.weighted + c.class_weights * (s.origin - o.max)));
    const float f = a.token_scaling ? expf(-o.minus_log_p) : 1;
    loss_terms v;
    v.z = a.z != 0 ? f * a.z * o.lse * o.lse * c.per_z : 0;
    v.loss = f * ce * c.per_ce + v.z;
    v.hit = s.largest == y;
    return v;
}

/* A row without a target: 1 if row r is one, and nothing is left to do. */
template <class T, class TEAM>
__device__ __forceinline__ static bool skip_row(const loss_args &a, const TEAM &t, int64_t r)
{
    const int64_t target = a.target[r];
    const loss_terms nothing = {0, 0, 0};
    if (target == a.ignore_index) {
        if (t.lane == 0 && !a.saved)
            write_row(a, r, nothing, 0, -1);
        if (a.dlogits.data)
            write_zeros<T>(a, t, r);
        return true;
    }
    if (a.range.holds(r, target, t.lane == 0))
        return false;
    if (t.lane == 0 && a.terms)
        a.terms[r] = nothing;
    return true;
}

__device__ __forceinline__ static loss_counts counts_of(const loss_args &a)
{
    return a.counts ? *a.counts : loss_counts{1, 1, (float)a.vocab, 0};
}

/* Where the logit of the row's target is among the row's, -1: in another slice. */
__device__ __forceinline__ static int place_of(const loss_args &a, int64_t r)
{
    const int64_t place = a.target[r] - a.start;
    return place >= 0 && place < a.n ? (int)place : -1;
}

/* The logit that stands apart from the row's sums: the target's, or any. */
__device__ __forceinline__ static int apart_of(const loss_args &a, int64_t r)
{
    return max(place_of(a, r), 0);
}

/* A row that has a target; x_y: the logit that stands apart. */
template <class T, bool ALL, class TEAM, class ROW>
__device__ __forceinline__ static void run_row(const loss_args &a, TEAM &t, const ROW &logits,
                                               int64_t r, float x_y)
{
    const int y = place_of(a, r);
    row_odds o;
    loss_counts c;
    x_y = capped<ALL>(x_y, a.softcap);
    if (!a.saved || !(odds_from(a.saved[r], x_y, a.n, &o) || a.slice)) {
        const row_sums s = sum_row<T, ALL>(a, t, logits, x_y, max(y, 0));
        o = odds_of(s);
        wait_for_the_kernel_before();
        c = counts_of(a);
        if (t.lane == 0 && !a.saved)
            write_row(a, r, terms_of(a, s, o, c, y), o.lse, s.largest);
    } else {
        wait_for_the_kernel_before();
        c = counts_of(a);
        t.barrier(); /* all have read x_y: dlogits may be the same memory */
    }
    if (a.dlogits.data)
        write_gradient<T, ALL>(a, t, r, logits, y, o, c);
}

template <class T, bool ALL>
__global__ void __launch_bounds__(MOST_LANES) loss_kernel(const loss_args a)
{
    __shared__ team_memory memory;
    team t(&memory, a.lanes);
    for (int64_t r = t.first; r < a.logits.rows; r += t.step) {
        const walked_row<T> logits = {(const T *)a.logits.row(r)};
        if (!skip_row<T>(a, t, r))
            run_row<T, ALL>(a, t, logits, r, get(logits.row + apart_of(a, r)));
    }
    wait_for_the_kernel_before(); /* so that who waits for this one waits for that one, too */
    let_the_next_come();
}

/* The same for wide rows: all of a row is under way at once, and it is read but once. */
template <class T, bool ALL>
__global__ void __launch_bounds__(LOGITS_THREADS, ALL ? 2 : 3)
    held_loss_kernel(const __grid_constant__ loss_args a)
{
    extern __shared__ uint4 held[];
    __shared__ logits_team::room memory;
    logits_team t(&memory);
    const T *const row = (const T *)a.logits.row(t.row);
    const held_logits<T> logits = {held};
    if (skip_row<T>(a, t, t.row)) {
        wait_for_the_kernel_before(); /* so that who waits for this one waits for that one, too */
        return;
    }
    logits.take(t, row, a.n);
    const float x_y = get(row + apart_of(a, t.row));
    t.begin();
    wait_for_copies();
    run_row<T, ALL>(a, t, logits, t.row, x_y);
    let_the_next_come();
}

/* ---- the host's side ---- */

/* What both directions have; NULL counts where none are needed, else *status tells whether there is
 * memory. */
template <class ARGS>
static tg_status loss_args_of(const cuda_call &call, const ARGS *args, loss_args *a, bool reduced)
{
    const int mean = args->reduction == TG_MEAN;
    *a = {};
    a->logits = plane_of(args->logits);
    a->dlogits = plane_of(args->dlogits);
    a->target = (const int64_t *)data_of(args->target);
    a->class_weight = (const float *)data_of(args->class_weight);
    a->dloss = (const float *)data_of(args->dloss);
    a->ignore_index = args->ignore_index;
    a->n = (int)width_of(args->logits);
    a->start = args->vocab_start;
    a->vocab = args->vocab_size ? args->vocab_size : a->n;
    a->slice = args->vocab_size != 0;
    a->range = range_of(call, "target", a->vocab);
    a->each = args->reduction == TG_NONE;
    a->dlogits_type = args->dlogits ? tg_type_of(args->dlogits) : 0;
    a->token_scaling = (int)args->token_scaling;
    a->smoothing = (float)args->label_smoothing;
    a->z = (float)args->lse_square_scale;
    a->softcap = (float)args->softcap;
    a->grad_scale = (float)args->grad_scale;
    if (!mean && !reduced && !(a->class_weight && a->smoothing != 0))
        return TG_OK;
    loss_counts *counts = (loss_counts *)cuda_host->device_workspace(call.ctx, sizeof *counts);
    if (!counts)
        return TG_ENOMEM;
    const tg_tensor *counted = args->batch_target ? args->batch_target : args->target;
    count_args c = {};
    c.target = (const int64_t *)data_of(counted);
    c.class_weight = a->class_weight;
    c.rows = tg_numel(counted);
    c.ignore_index = a->ignore_index;
    c.n = a->vocab;
    c.range = range_of(call, "batch_target", a->vocab);
    c.tell = args->batch_target != NULL;
    c.mean = mean;
    c.smoothing = a->smoothing != 0;
    count_kernel<<<1, ALL_ROWS_THREADS, 0, call.stream>>>(c, counts);
    a->counts = counts;
    return TG_OK;
}

/* Whether rows are gone through but once, all but those whose lse does not tell, and there are
 * enough of them for a block each: rows that take a cluster to hold are then walked. */
static bool walks(const cuda_call &call, const loss_args &a)
{
    return (a.saved || !a.dlogits.data) && !few_rows(call, a.logits.rows);
}

template <class T> static void launch_rows_of(const cuda_call &call, loss_args a)
{
    const bool all = a.smoothing != 0 || a.softcap > 0 || a.find_largest;
    if constexpr (element<T>::WHOLE) {
        held_shape h =
            hold_rows(call, LOGITS_THREADS, a.logits.rows, (int64_t)a.n * (int)sizeof(T), 1);
        h.behind = a.counts != NULL;
        if (h.cluster && (all || h.cluster == 1 || !walks(call, a))) {
            launch_held(call, h, all ? held_loss_kernel<T, true> : held_loss_kernel<T, false>, a);
            return;
        }
    }
    const row_shape s = shape_rows(a.logits.rows, ceil_div(a.n, V<T>), CHUNKS_OF_A_THREAD,
                                   a.dlogits.data ? GRADIENT_LANES : LOSS_LANES);
    a.lanes = s.lanes;
    const auto kernel = all ? loss_kernel<T, true> : loss_kernel<T, false>;
    if (a.counts)
        launch_behind(call, kernel, (unsigned)s.blocks, s.threads, a);
    else
        kernel<<<(unsigned)s.blocks, s.threads, 0, call.stream>>>(a);
}

static void launch_rows(const cuda_call &call, const tg_tensor *logits, const tg_tensor *dlogits,
                        const tg_tensor *class_weight, const loss_args &a)
{
    const tg_tensor *const tensors[] = {logits, dlogits, class_weight};
    const bool are = are_whole(tensors, 3) && a.logits.outer % 16 == 0 && a.dlogits.outer % 16 == 0;
    if (a.logits.rows == 0)
        return;
    by_wholeness(logits, are, [&](auto e) { launch_rows_of<decltype(e)>(call, a); });
}

static tg_status forward(const cuda_call &call, const tg_cross_entropy_forward_args *args)
{
    loss_args a;
    const bool reduced = args->reduction != TG_NONE;
    tg_status status = check_width(call.op, width_of(args->logits));
    if (status == TG_OK)
        status = loss_args_of(call, args, &a, reduced);
    if (status != TG_OK)
        return status;
    a.loss = (float *)data_of(args->loss);
    a.z_loss = (float *)data_of(args->z_loss);
    a.lse = (float *)data_of(args->lse);
    a.accuracy = (float *)data_of(args->accuracy);
    a.predicted = (int64_t *)data_of(args->predicted);
    a.find_largest = a.accuracy || a.predicted;
    if (reduced) {
        a.terms = (loss_terms *)cuda_host->device_workspace(
            call.ctx, (size_t)a.logits.rows * sizeof *a.terms + 1);
        if (!a.terms)
            return TG_ENOMEM;
    }
    launch_rows(call, args->logits, args->dlogits, args->class_weight, a);
    if (reduced)
        launch_behind(call, reduce_kernel, 1, ALL_ROWS_THREADS, a.terms, a.logits.rows, a.counts,
                      a.loss, a.z_loss, a.accuracy);
    return TG_OK;
}

CUDA_OPERATOR(cross_entropy_forward, TG_TAKES_FLOATS | TG_TAKES_PLANES);
CUDA_OPERATOR(cross_entropy_backward, TG_TAKES_FLOATS | TG_TAKES_PLANES);

tg_status cuda_cross_entropy_forward(tg_ctx *ctx, const tg_cross_entropy_forward_args *args)
{
    cuda_call call;
    tg_status status = cuda_begin(&call, ctx, "cross_entropy_forward", args->logits);
    if (status != TG_OK)
        return status;
    status = forward(call, args);
    return cuda_end(&call, status);
}

static tg_status backward(const cuda_call &call, const tg_cross_entropy_backward_args *args)
{
    loss_args a;
    tg_status status = check_width(call.op, width_of(args->logits));
    if (status == TG_OK)
        status = loss_args_of(call, args, &a, false);
    if (status != TG_OK)
        return status;
    a.saved = (const float *)data_of(args->lse);
    launch_rows(call, args->logits, args->dlogits, args->class_weight, a);
    return TG_OK;
}

tg_status cuda_cross_entropy_backward(tg_ctx *ctx, const tg_cross_entropy_backward_args *args)
{
    cuda_call call;
    tg_status status = cuda_begin(&call, ctx, "cross_entropy_backward", args->logits);
    if (status != TG_OK)
        return status;
    status = backward(call, args);
    return cuda_end(&call, status);
}
