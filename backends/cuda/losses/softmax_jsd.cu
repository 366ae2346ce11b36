/* softmax_jsd.cu - the generalised Jensen-Shannon divergence of the softmaxes of two rows of
 * logits, and the gradient of the student's logits.
 *
 * Wide rows of both stay in shared memory: logits are read once and the gradient is written once.
 * Other rows are read again in each of four passes: for the largest logits, the sums of
 * exponentials, loss and sum of slopes, and the gradient. The README of the family has the
 * formulas: the largest logit stands apart from its sum, and slopes are taken relative to that of a
 * class with most of the probability. Two log-probabilities are compared by the difference of their
 * logits, which is exact where these nearly agree. */
#include "losses/batch.cuh"
#include "softmax_jsd_rows.cuh"

/* ---- kernels ---- */

/* 1 if row r does not count, and has got its gradient of zeros. */
template <class T, class Y, class TEAM>
__device__ __forceinline__ static bool skip_row(const softmax_jsd_args &a, const TEAM &t, int64_t r)
{
    const float zeros[V<T>] = {};
    if (batch_counts(a, r))
        return false;
    if (a.dstudent.data)
        for (int j = t.lane * V<T>; j < a.n; j += t.lanes * V<T>)
            store_as<Y>(a.dstudent.row<Y>(r) + j, a.n - j, zeros);
    return true;
}

template <class F, class T, class Y>
__global__ void __launch_bounds__(MOST_LANES)
    softmax_jsd_kernel(const F f, const __grid_constant__ softmax_jsd_args a)
{
    __shared__ team_memory memory;
    team t(&memory, a.lanes);
    const float factor = batch_factor(a);
    double loss = 0;
    for (int64_t r = t.first; r < a.rows; r += t.step) {
        const walked_pair<T> pair = {a.student.row<T>(r), a.teacher.row<T>(r)};
        if (!skip_row<T, Y>(a, t, r))
            loss += run_row<T, Y>(f, a, t, pair, r, factor);
    }
    batch_leave(a, t, loss);
}

template <class F, class T, class Y>
__global__ void __launch_bounds__(PAIR_THREADS, 3)
    held_softmax_jsd_kernel(const F f, const __grid_constant__ softmax_jsd_args a)
{
    extern __shared__ uint4 held[];
    __shared__ pair_team::room memory;
    pair_team t(&memory);
    const held_pair<T> pair = {held};
    float loss = 0;
    if (!skip_row<T, Y>(a, t, t.row)) {
        pair.take(t, a.n, a.student.row<T>(t.row), a.teacher.row<T>(t.row));
        const float factor = batch_factor(a);
        t.begin();
        wait_for_copies();
        loss = run_row<T, Y>(f, a, t, pair, t.row, factor);
    }
    if (a.partial && t.lane == 0)
        a.partial[t.row] = loss;
}

/* ---- the host's side ---- */

/* What both directions are given. */
struct softmax_jsd_call {
    batch_call batch;
    const tg_tensor *student, *teacher;
    tg_tensor *dstudent;
    double beta;
};

/* Returns how many sums of losses there will be. */
template <class F, class T, class Y>
static int64_t launch(const cuda_call &call, const F &f, softmax_jsd_args a, const held_shape &held,
                      int64_t most)
{
    if constexpr (element<T>::WHOLE) {
        launch_held(call, held, held_softmax_jsd_kernel<F, T, Y>, f, a);
        return a.rows;
    }
    const row_shape s = shape_rows(a.rows, ceil_div(a.n, V<T>), FEW, MOST_LANES);
    const int64_t blocks = min_of(most, s.blocks);
    a.lanes = s.lanes;
    softmax_jsd_kernel<F, T, Y><<<(unsigned)blocks, s.threads, 0, call.stream>>>(f, a);
    return blocks;
}

/* Types of the student's logits and of its gradient are the same, or of f32 logits any. whole<T>:
 * of rows that are held. */
template <class RUN> static void by_types(const softmax_jsd_call &c, bool held, const RUN &run)
{
    by_wholeness(c.student, held, [&](auto e) {
        if constexpr (sizeof(e) == 4) {
            by_wholeness(c.dstudent ? c.dstudent : c.student, held,
                         [&](auto of_y) { run(e, of_y); });
        } else {
            run(e, e);
        }
    });
}

template <class F>
static tg_status run_loss(const F &f, const softmax_jsd_call &c, const cuda_call &call,
                          softmax_jsd_args a)
{
    const tg_tensor *const tensors[] = {c.student, c.teacher, c.dstudent};
    const int size = (int)tg_type_size(tg_type_of(c.student));
    held_shape held = hold_rows(call, PAIR_THREADS, a.rows, 2 * (int64_t)a.n * size, 2);
    held.cluster = are_whole(tensors, 3) ? held.cluster : 0;
    const int64_t blocks = (int64_t)call.processors * DIVERGENCE_BLOCKS,
                  most = held.cluster ? a.rows : blocks;
    double *memory = batch_shares(call, c.batch, most, &a);
    if (!memory)
        return TG_ENOMEM;
    a.unit *= (float)F::UNIT;
    int64_t parts = 0;
    if (a.rows > 0 && a.n > 0)
        by_types(c, held.cluster > 0, [&](auto e, auto of_y) {
            parts = launch<F, decltype(e), decltype(of_y)>(call, f, a, held, most);
        });
    batch_total(call, c.batch, a, memory, parts);
    return TG_OK;
}

static tg_status run(tg_ctx *ctx, const softmax_jsd_call &c)
{
    softmax_jsd_args a = {};
    cuda_call call;
    batch_begin(c.batch, c.student, &a);
    a.student = span_of(c.student);
    a.teacher = span_of(c.teacher);
    a.dstudent = span_of(c.dstudent);
    a.scale = (float)(1 / (LN_2 * c.batch.temperature));
    tg_status status = check_width(c.batch.of.op, width_of(c.student));
    if (status == TG_OK)
        status = cuda_begin(&call, ctx, c.batch.of.op, c.student);
    if (status != TG_OK)
        return status;
    if (c.beta == 0) {
        status = run_loss(softmax_jsd_forward_kl(), c, call, a);
    } else if (c.beta == 1) {
        status = run_loss(softmax_jsd_reverse_kl(), c, call, a);
    } else if (c.beta == 0.5) {
        status = run_loss(softmax_jsd_mixture_of(even_mixture<true>(), 0.5), c, call, a);
    } else {
        status = run_loss(softmax_jsd_mixture_of(mixture_of(c.beta), c.beta), c, call, a);
    }
    return cuda_end(&call, status);
}

/* The arguments that both directions have. */
template <class ARGS> static softmax_jsd_call call_of(const char *op, const ARGS *args)
{
    softmax_jsd_call c = {batch_call_of(op, args), args->student, args->teacher, args->dstudent,
                          args->beta};
    c.batch.of.reduction = TG_MEAN;
    c.batch.of.by_rows = 1;
    return c;
}

CUDA_OPERATOR(softmax_jsd_forward, TG_TAKES_FLOATS);
CUDA_OPERATOR(softmax_jsd_backward, TG_TAKES_FLOATS);

tg_status cuda_softmax_jsd_forward(tg_ctx *ctx, const tg_softmax_jsd_forward_args *args)
{
    softmax_jsd_call c = call_of("softmax_jsd_forward", args);
    c.batch.of.loss = args->loss;
    return run(ctx, c);
}

tg_status cuda_softmax_jsd_backward(tg_ctx *ctx, const tg_softmax_jsd_backward_args *args)
{
    return run(ctx, call_of("softmax_jsd_backward", args));
}
