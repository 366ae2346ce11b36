/* softmax_jsd.cu - the generalised Jensen-Shannon divergence of the softmaxes of two rows of logits, and the gradient of the student's logits.
 *
 * Wide rows of both stay in shared memory: logits are read once and the gradient is written once. Other rows are read again in each of four passes:
 * for the largest logits, the sums of exponentials, loss and sum of slopes, and the gradient. The README of the family has the formulas:
 * the largest logit stands apart from its sum, and slopes are taken relative to that of the student's likeliest class. Two
 * log-probabilities are compared by the difference of their logits, which is exact where these nearly agree. */
#include "softmax_jsd.cuh"
#include "divergence.cuh"
#include "held.cuh"

struct softmax_jsd_args {
    row_span student, teacher, dstudent; /* dstudent.data NULL: no gradient */
    const int64_t *labels;               /* of these rows; NULL: all count */
    const float *dloss;                  /* NULL: 1 */
    const double *counted;               /* 1 / n; NULL: share */
    double *partial;                     /* losses of a block, or of a row that is held; NULL: no loss */
    int64_t rows, ignore_index;
    double share;
    float scale; /* log2(e) / temperature */
    float unit;  /* what the gradient is multiplied with beside share and dloss */
    int n, lanes;
};

/* ---- where the rows lie ---- */

/* Both in memory. */
template <class T> struct walked_pair {
    static constexpr bool CAN_KEEP = false;
    const T *student, *teacher;

    template <bool, class TEAM, class EACH>
    __device__ __forceinline__ void for_each(const TEAM &t, int n, const EACH &each) const
    {
        for_chunks<T, 0>(t, n, [&](int, int j) {
            float x[V<T>], y[V<T>];
            widen<T>(load(student + j, n - j, MINUS_INFINITY<T>), x);
            widen<T>(load(teacher + j, n - j, MINUS_INFINITY<T>), y);
            each(j, x, y);
        });
    }
};

enum { PAIR_THREADS = 256 /* of a block that holds two rows, or a part of them */ };

typedef cluster_team<PAIR_THREADS> pair_team;

/* Both in shared memory, of whole chunks, which each thread copied there for itself. KEEP: what `each` makes of f32 stays in their place. */
template <class T> struct held_pair {
    static constexpr bool CAN_KEEP = sizeof(T) == 4;
    uint4 *memory;

    __device__ __forceinline__ void take(const pair_team &t, int n, const T *student,
                                         const T *teacher) const
    {
        for_chunks_held(t, n, [&](int j, uint4 *at) {
            copy_ahead(at, student + j);
            copy_ahead(at + PAIR_THREADS, teacher + j);
        });
    }

    template <bool KEEP, class EACH>
    __device__ __forceinline__ void for_each(const pair_team &t, int n, const EACH &each) const
    {
        for_chunks_held(t, n, [&](int j, uint4 *at) {
            float x[V<T>], y[V<T>];
            widen<T>(at[0], x);
            widen<T>(at[PAIR_THREADS], y);
            each(j, x, y);
            if constexpr (KEEP && CAN_KEEP) {
                at[0] = narrow<T>(x);
                at[PAIR_THREADS] = narrow<T>(y);
            }
        });
    }

  private:
    template <class EACH>
    __device__ __forceinline__ void for_chunks_held(const pair_team &t, int n,
                                                    const EACH &each) const
    {
        uint4 *at = memory + threadIdx.x;
        for (int j = t.lane * V<T>; j < n; j += t.lanes * V<T>, at += 2 * PAIR_THREADS)
            each(j, at);
    }
};

/* ---- the passes over a pair of rows ---- */

/* A class with logits x and y has probabilities share 2^(x scale - base), and its logarithms are (y - x) scale - offset apart. */
struct softmax_pair {
    float base[2], share[2]; /* of student and teacher */
    float offset, best;      /* best: how far apart they are for the student's likeliest class */
};

/* The largest logit that a thread has seen, and where the first chunk with it begins. */
struct softmax_largest {
    float max;
    int at;

    template <int N> __device__ __forceinline__ void add(const float (&x)[N], int j)
    {
        float own = x[0];
#pragma unroll
        for (int i = 1; i < N; i++)
            own = fmaxf(own, x[i]);
        if (own > max) {
            max = own;
            at = j;
        }
    }
};

/* Takes the first element that is the largest out of its chunk. Returns that of another chunk, in its place. */
template <int N>
__device__ __forceinline__ static float take_out(float (&x)[N], float max, const float (&y)[N])
{
    float beside = 0;
    bool out = false;
#pragma unroll
    for (int i = 0; i < N; i++)
        if (!out && x[i] == max) {
            out = true;
            beside = y[i];
            x[i] = -CUDART_INF_F;
        }
    return beside;
}

/* The team's largest logits. */
template <class T, class TEAM, class PAIR>
__device__ __forceinline__ static void find_largest(TEAM &t, int n, const PAIR &pair,
                                                    softmax_largest (&top)[2])
{
    float value[2], at[2];
#pragma unroll
    for (int m = 0; m < 2; m++)
        top[m] = softmax_largest{-CUDART_INF_F, INT32_MAX};
    pair.template for_each<false>(t, n, [&](int j, float(&x)[V<T>], float(&y)[V<T>]) {
        top[0].add(x, j);
        top[1].add(y, j);
    });
#pragma unroll
    for (int m = 0; m < 2; m++)
        value[m] = top[m].max;
    t.reduce(value, larger());
#pragma unroll
    for (int m = 0; m < 2; m++)
        at[m] = __int_as_float(top[m].max == value[m] ? top[m].at : INT32_MAX);
    t.reduce(at, smaller_index());
#pragma unroll
    for (int m = 0; m < 2; m++)
        top[m] = softmax_largest{value[m], __float_as_int(at[m])};
}

/* log2((1 + b) / (1 + a)) of a and b that are not negative, more = b - a. */
__device__ __forceinline__ static float log_of_ratio(float a, float b, float more)
{
    const float z = more / (1 + a);
    return LOG2_E * (z > -0.5f ? log1pf(z) : log1pf(b) - log1pf(a));
}

template <class T, class TEAM, class PAIR>
__device__ __forceinline__ static softmax_pair compare_rows(const softmax_jsd_args &a, TEAM &t,
                                                            const PAIR &pair)
{
    softmax_largest top[2];
    softmax_pair s;
    float sums[4] = {0, 0, 0, 0}; /* of both rows, and of their differences, without the largest; what stands beside the student's largest */
    float up[2], others[2];
    find_largest<T>(t, a.n, pair, top);
#pragma unroll
    for (int m = 0; m < 2; m++)
        s.base[m] = top[m].max * a.scale;
    pair.template for_each<false>(t, a.n, [&](int j, float(&x)[V<T>], float(&y)[V<T>]) {
        if (j == top[0].at)
            sums[3] = take_out(x, top[0].max, y);
        if (j == top[1].at)
            take_out(y, top[1].max, y);
#pragma unroll
        for (int i = 0; i < V<T>; i++) {
            const float q = exp2_term(fmaf(x[i], a.scale, -s.base[0]));
            const float p = exp2_term(fmaf(y[i], a.scale, -s.base[1]));
            sums[0] += q;
            sums[1] += p;
            sums[2] += p - q;
        }
    });
    t.sum(sums);
#pragma unroll
    for (int m = 0; m < 2; m++) {
        /* base is rounded; relative to the largest logit powers are so many times larger */
        up[m] = exp2f(-fmaf(top[m].max, a.scale, -s.base[m]));
        others[m] = sums[m] * up[m];
        s.share[m] = up[m] / (1 + others[m]);
    }
    const float more = up[1] * sums[2] + (up[1] - up[0]) * sums[0];
    s.offset = fmaf(top[0].max - top[1].max, -a.scale, log_of_ratio(others[0], others[1], more));
    s.best = fmaf(sums[3] - top[0].max, a.scale, -s.offset);
    return s;
}

/* Of a row: what slopes are relative to, and sums of the losses and of q (slope - middle). */
struct softmax_jsd_sums {
    float middle, loss, slope;
};

template <class F>
__device__ __forceinline__ static softmax_jsd_term
term_of(const F &f, const softmax_jsd_args &a, const softmax_pair &s, float x, float y, float *q)
{
    *q = s.share[0] * exp2_term(fmaf(x, a.scale, -s.base[0]));
    const float p = s.share[1] * exp2_term(fmaf(y, a.scale, -s.base[1]));
    return f(*q, p, fmaf(y - x, a.scale, -s.offset));
}

template <class T, class F, class TEAM, class PAIR>
__device__ __forceinline__ static softmax_jsd_sums
sum_losses(const F &f, const softmax_jsd_args &a, TEAM &t, const PAIR &pair, const softmax_pair &s)
{
    const float middle = f(1, 1, s.best).slope + 0 * s.offset; /* NaN if a row is */
    float sums[2] = {0, 0};
    pair.template for_each<true>(t, a.n, [&](int, float(&x)[V<T>], float(&y)[V<T>]) {
#pragma unroll
        for (int i = 0; i < V<T>; i++) {
            float q;
            const softmax_jsd_term d = term_of(f, a, s, x[i], y[i], &q);
            sums[0] += d.loss;
            sums[1] += q * (d.slope - middle);
            x[i] = d.slope;
            y[i] = q;
        }
    });
    t.sum(sums);
    return softmax_jsd_sums{middle, sums[0], sums[1]};
}

template <class T, class Y, bool SLOPE_ALONE, class F, class TEAM, class PAIR>
__device__ __forceinline__ static void
write_gradients(const F &f, const softmax_jsd_args &a, TEAM &t, const PAIR &pair, int64_t r,
                const softmax_pair &s, const softmax_jsd_sums &sums, float factor)
{
    pair.template for_each<false>(t, a.n, [&](int j, float(&x)[V<T>], float(&y)[V<T>]) {
        float dx[V<T>];
#pragma unroll
        for (int i = 0; i < V<T>; i++) {
            float q = y[i], slope = x[i];
            if (!PAIR::CAN_KEEP)
                slope = term_of(f, a, s, x[i], y[i], &q).slope;
            dx[i] = factor * (SLOPE_ALONE ? slope : q * (slope - sums.middle - sums.slope));
        }
        store_as<Y>(a.dstudent.row<Y>(r) + j, a.n - j, dx);
    });
}

/* Returns the row's loss. */
template <class T, class Y, class F, class TEAM, class PAIR>
__device__ __forceinline__ static float run_row(const F &f, const softmax_jsd_args &a, TEAM &t,
                                                const PAIR &pair, int64_t r, float factor)
{
    const softmax_pair s = compare_rows<T>(a, t, pair);
    float loss;
    f.for_row(s.best, [&](const auto &of_row) {
        const softmax_jsd_sums sums = sum_losses<T>(of_row, a, t, pair, s);
        if (a.dstudent.data)
            write_gradients<T, Y, F::SLOPE_ALONE>(of_row, a, t, pair, r, s, sums, factor);
        loss = (float)F::LOSS_UNIT * sums.loss;
    });
    return loss;
}

/* 1 if row r does not count, and has got its gradient of zeros. */
template <class T, class Y, class TEAM>
__device__ __forceinline__ static bool skip_row(const softmax_jsd_args &a, const TEAM &t, int64_t r)
{
    const float zeros[V<T>] = {};
    if (!a.labels || a.labels[r] != a.ignore_index)
        return false;
    if (a.dstudent.data)
        for (int j = t.lane * V<T>; j < a.n; j += t.lanes * V<T>)
            store_as<Y>(a.dstudent.row<Y>(r) + j, a.n - j, zeros);
    return true;
}

__device__ __forceinline__ static float factor_of(const softmax_jsd_args &a)
{
    return (float)(a.counted ? *a.counted : a.share) * (a.dloss ? *a.dloss : 1) * a.unit;
}

template <class F, class T, class Y>
__global__ void __launch_bounds__(MOST_LANES)
    softmax_jsd_kernel(const F f, const __grid_constant__ softmax_jsd_args a)
{
    __shared__ team_memory memory;
    __shared__ double losses[MOST_LANES / 2];
    team t(&memory, a.lanes);
    const float factor = factor_of(a);
    double loss = 0;
    for (int64_t r = t.first; r < a.rows; r += t.step) {
        const walked_pair<T> pair = {a.student.row<T>(r), a.teacher.row<T>(r)};
        if (!skip_row<T, Y>(a, t, r))
            loss += run_row<T, Y>(f, a, t, pair, r, factor);
    }
    if (!a.partial)
        return;
    if (t.lane == 0)
        losses[t.index] = loss;
    __syncthreads();
    loss = 0;
    for (int i = 0; i < (int)blockDim.x / a.lanes && threadIdx.x == 0; i++)
        loss += losses[i];
    if (threadIdx.x == 0)
        a.partial[blockIdx.x] = loss;
}

template <class F, class T, class Y>
__global__ void __launch_bounds__(PAIR_THREADS, 3)
    held_softmax_jsd_kernel(const F f, const __grid_constant__ softmax_jsd_args a)
{
    extern __shared__ uint4 held[];
    __shared__ cluster_memory memory;
    pair_team t(&memory);
    const held_pair<T> pair = {held};
    float loss = 0;
    if (!skip_row<T, Y>(a, t, t.row)) {
        pair.take(t, a.n, a.student.row<T>(t.row), a.teacher.row<T>(t.row));
        t.begin();
        wait_for_copies();
        loss = run_row<T, Y>(f, a, t, pair, t.row, factor_of(a));
    }
    if (a.partial && t.lane == 0)
        a.partial[t.row] = loss;
}

/* ---- the host's side ---- */

/* What both directions are given. */
typedef struct softmax_jsd_call {
    const char *op;
    const tg_tensor *student, *teacher, *labels, *dloss;
    tg_tensor *loss, *dstudent;
    double beta, temperature, grad_scale;
    int64_t ignore_index, first_row, batch_rows;
} softmax_jsd_call;

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

/* Types of the student's logits and of its gradient are the same, or of f32 logits any. whole<T>: of rows that are held. */
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
    double *memory = (double *)cuda_host->device_workspace(call.ctx, (size_t)(most + 1) * 8);
    if (!memory)
        return TG_ENOMEM;
    if (c.labels) {
        const int64_t *labels = (const int64_t *)data_of(c.labels);
        a.labels = labels + c.first_row;
        a.counted = memory + most;
        divergence_share<<<1, TOTAL_THREADS, 0, call.stream>>>(memory + most, labels, c.batch_rows,
                                                               a.ignore_index, 1);
    }
    a.partial = c.loss ? memory : NULL;
    a.unit *= (float)F::UNIT;
    int64_t parts = 0;
    if (a.rows > 0 && a.n > 0)
        by_types(c, held.cluster > 0, [&](auto e, auto of_y) {
            parts = launch<F, decltype(e), decltype(of_y)>(call, f, a, held, most);
        });
    if (c.loss)
        launch_behind(call, divergence_total, 1, TOTAL_THREADS, (float *)data_of(c.loss), memory,
                      parts, a.counted, a.share);
    return TG_OK;
}

static tg_status run(tg_ctx *ctx, softmax_jsd_call c)
{
    softmax_jsd_args a = {};
    cuda_call call;
    a.student = span_of(c.student);
    a.teacher = span_of(c.teacher);
    a.dstudent = span_of(c.dstudent);
    a.rows = rows_of(c.student);
    a.n = (int)width_of(c.student);
    a.dloss = (const float *)data_of(c.dloss);
    a.ignore_index = c.ignore_index;
    a.scale = (float)(1 / (LN_2 * c.temperature));
    c.batch_rows = c.batch_rows ? c.batch_rows : a.rows;
    a.share = c.batch_rows ? 1 / (double)c.batch_rows : 0;
    tg_status status = check_width(c.op, width_of(c.student));
    if (status != TG_OK)
        return status;
    status = cuda_begin(&call, ctx, c.op, c.student);
    if (status != TG_OK)
        return status;
    a.unit = (float)(c.grad_scale / c.temperature);
    if (c.beta == 0) {
        status = run_loss(softmax_jsd_forward_kl(), c, call, a);
    } else if (c.beta == 1) {
        status = run_loss(softmax_jsd_reverse_kl(), c, call, a);
    } else if (c.beta == 0.5) {
        status = run_loss(softmax_jsd_mixture_of(even_mixture(), 0.5), c, call, a);
    } else {
        status = run_loss(softmax_jsd_mixture_of(mixture_of(c.beta), c.beta), c, call, a);
    }
    return cuda_end(&call, status);
}

/* The arguments that both directions have. */
template <class ARGS> static softmax_jsd_call call_of(const char *op, const ARGS *args)
{
    softmax_jsd_call c = {};
    c.op = op;
    c.student = args->student;
    c.teacher = args->teacher;
    c.labels = args->labels;
    c.dloss = args->dloss;
    c.dstudent = args->dstudent;
    c.beta = args->beta;
    c.temperature = args->temperature;
    c.grad_scale = args->grad_scale;
    c.ignore_index = args->ignore_index;
    c.first_row = args->first_row;
    c.batch_rows = args->batch_rows;
    return c;
}

tg_status cuda_softmax_jsd_forward(tg_ctx *ctx, const tg_softmax_jsd_forward_args *args)
{
    softmax_jsd_call c = call_of("softmax_jsd_forward", args);
    c.loss = args->loss;
    return run(ctx, c);
}

tg_status cuda_softmax_jsd_backward(tg_ctx *ctx, const tg_softmax_jsd_backward_args *args)
{
    return run(ctx, call_of("softmax_jsd_backward", args));
}
