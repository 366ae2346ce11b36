/* softmax_jsd.cu - the generalised Jensen-Shannon divergence of the softmaxes of two rows of logits, and the gradient of the student's.
 *
 * A row is a team's. It is read once for the largest logits and the sums of exponentials, once for the loss and the sum of slopes, and once
 * more for the gradients, from L2 by then. The README of the family has the formulas: the largest logit stands apart from its sum, slopes
 * are taken relative to that of the student's likeliest class, and the difference of two log-probabilities comes from the logits
 * alone, so that confident rows and rows that nearly agree keep their digits. */
#include "divergence.cuh"
#include "rows.cuh"

struct softmax_jsd_args {
    row_span student, teacher, dstudent; /* dstudent.data NULL: no gradient */
    const int64_t *labels;               /* of these rows; NULL: all count */
    const float *dloss;                  /* NULL: 1 */
    const double *counted;               /* 1 / n; NULL: share */
    double *partial;                     /* losses of a block; NULL: no loss */
    int64_t rows, ignore_index;
    double share;
    double per_temperature;
    float unit; /* what the gradient is multiplied with beside share and dloss */
    int n, lanes;
};

/* ---- a class ---- */

/* What the gradient is made of: q (slope - sum of q slope), or of beta 0 the slope alone. */
struct softmax_jsd_term {
    float loss, q;
    double slope;
};

/* x, y: log-probabilities of student and teacher. What is small where they nearly agree is computed in double. */

struct softmax_jsd_forward_kl {
    enum { SLOPE_ALONE = 1 };
    __device__ __forceinline__ softmax_jsd_term operator()(double x, double y) const
    {
        const double apart = x == y ? 0 : y - x; /* both may be -inf */
        const float p = expf((float)y), larger = expf((float)(y > x ? y : x));
        const double difference = larger * expm1((-fabs(apart) < -40.0 ? -40.0 : -fabs(apart)));
        return {p == 0 ? 0 : (float)(p * apart), p, apart < 0 ? difference * -1 : difference};
    }
};

struct softmax_jsd_reverse_kl {
    enum { SLOPE_ALONE = 0 };
    __device__ __forceinline__ softmax_jsd_term operator()(double x, double y) const
    {
        const float q = expf((float)x);
        const double slope = q == 0 ? q : x - y;
        return {(float)(q * slope), q, slope};
    }
};

/* With E the larger of the two probabilities, w the weight of the smaller in the mixture, n <= 0 the difference of the logarithms and
 * u = exp(n) - 1: M = E m, m = 1 + w u, and the loss is E (w (u + 1) n - m log m). -200 stands for all logarithms below it. The slope
 * is the student's logarithm less that of M. */
struct softmax_jsd_mixture {
    enum { SLOPE_ALONE = 0 };
    double beta;
    __device__ __forceinline__ softmax_jsd_term operator()(double x, double y) const
    {
        const double a = x < -200 ? -200 : x, b = y < -200 ? -200 : y, apart = b - a;
        const bool of_x = apart < 0; /* x is the larger */
        const double n = -fabs(apart), u = expm1(n), w = of_x ? beta : 1 - beta, shift = w * u;
        const double l = log1p(shift);
        const float larger = expf((float)(of_x ? a : b));
        return {(float)(larger * (w * (u + 1) * n - l * (1 + shift))), expf((float)a),
                (of_x ? 0 : n) - l};
    }
};

/* ---- a row ---- */

/* The largest logit of a row, the first of its kind, and the logarithm of the sum of exp((x - largest) / temperature). */
struct softmax_top {
    float max;
    int at;
    double log_sum;
};

/* (x - largest) / temperature: two logits that nearly agree differ by less than f32 has there. */
__device__ __forceinline__ static double below(const softmax_jsd_args &a, const softmax_top &top,
                                               float x)
{
    return ((double)x - top.max) * a.per_temperature;
}

/* What a thread has seen of a row. */
struct softmax_largest {
    float max;
    int at;
    __device__ __forceinline__ void add(float x, int i)
    {
        if (x > max) {
            max = x;
            at = i;
        }
    }
};

__device__ __forceinline__ static void join(team &t, const softmax_largest (&part)[2],
                                            softmax_top (&top)[2])
{
    float max[2], at[2];
#pragma unroll
    for (int m = 0; m < 2; m++)
        max[m] = part[m].max;
    t.reduce(max, larger());
#pragma unroll
    for (int m = 0; m < 2; m++)
        at[m] = __int_as_float(part[m].max == max[m] ? part[m].at : INT32_MAX);
    t.reduce(at, smaller_index());
#pragma unroll
    for (int m = 0; m < 2; m++) {
        top[m].max = max[m];
        top[m].at = __float_as_int(at[m]);
    }
}

/* The term of a class, from its logits. */
template <class F>
__device__ __forceinline__ static softmax_jsd_term
term_of(const F &f, const softmax_jsd_args &a, const softmax_top (&top)[2], float x, float y)
{
    return f(below(a, top[0], x) - top[0].log_sum, below(a, top[1], y) - top[1].log_sum);
}

/* each(j, x, y): chunks of both rows. */
template <class T, class EACH>
__device__ __forceinline__ static void for_pairs(const softmax_jsd_args &a, const team &t,
                                                 int64_t r, const EACH &each)
{
    const T *const student = a.student.row<T>(r), *const teacher = a.teacher.row<T>(r);
    for_chunks<T, 0>(t, a.n, [&](int, int j) {
        float x[V<T>], y[V<T>];
        widen<T>(load(student + j, a.n - j, MINUS_INFINITY<T>), x);
        widen<T>(load(teacher + j, a.n - j, MINUS_INFINITY<T>), y);
        each(j, x, y);
    });
}

template <class T>
__device__ __forceinline__ static void find_tops(const softmax_jsd_args &a, team &t, int64_t r,
                                                 softmax_top (&top)[2])
{
    softmax_largest part[2] = {{-CUDART_INF_F, INT32_MAX}, {-CUDART_INF_F, INT32_MAX}};
    double others[2] = {0, 0}; /* sums but that of the largest */
    for_pairs<T>(a, t, r, [&](int j, const float(&x)[V<T>], const float(&y)[V<T>]) {
#pragma unroll
        for (int i = 0; i < V<T>; i++) {
            part[0].add(x[i], j + i);
            part[1].add(y[i], j + i);
        }
    });
    join(t, part, top);
    for_pairs<T>(a, t, r, [&](int j, const float(&x)[V<T>], const float(&y)[V<T>]) {
#pragma unroll
        for (int i = 0; i < V<T>; i++) {
            if (j + i >= a.n)
                continue;
            if (j + i != top[0].at)
                others[0] += exp(below(a, top[0], x[i]));
            if (j + i != top[1].at)
                others[1] += exp(below(a, top[1], y[i]));
        }
    });
#pragma unroll
    for (int m = 0; m < 2; m++)
        top[m].log_sum = log1p(t.sum(others[m]));
}

/* Of a row: the slope of the likeliest class, and sums of the losses and of q (slope - middle). */
struct softmax_jsd_sums {
    double middle;
    float loss, slope;
};

template <class F, class T>
__device__ __forceinline__ static softmax_jsd_sums
sum_losses(const F &f, const softmax_jsd_args &a, team &t, int64_t r, const softmax_top (&top)[2])
{
    softmax_jsd_sums s;
    float sums[2] = {0, 0};
    const int best = top[0].at < a.n ? top[0].at : 0;
    const float x_best = get(a.student.row<T>(r) + best), y_best = get(a.teacher.row<T>(r) + best);
    s.middle = term_of(f, a, top, x_best, y_best).slope;
    for_pairs<T>(a, t, r, [&](int j, const float(&x)[V<T>], const float(&y)[V<T>]) {
#pragma unroll
        for (int i = 0; i < V<T>; i++) {
            if (j + i >= a.n)
                continue;
            const softmax_jsd_term d = term_of(f, a, top, x[i], y[i]);
            sums[0] += d.loss;
            sums[1] += d.q * (float)(d.slope - s.middle);
        }
    });
    t.sum(sums);
    s.loss = sums[0];
    s.slope = sums[1];
    return s;
}

template <class F, class T, class Y>
__device__ __forceinline__ static void
write_gradients(const F &f, const softmax_jsd_args &a, team &t, int64_t r,
                const softmax_top (&top)[2], const softmax_jsd_sums &s, float g)
{
    for_pairs<T>(a, t, r, [&](int j, const float(&x)[V<T>], const float(&y)[V<T>]) {
        float dx[V<T>];
#pragma unroll
        for (int i = 0; i < V<T>; i++) {
            const softmax_jsd_term d = term_of(f, a, top, x[i], y[i]);
            dx[i] =
                g * (F::SLOPE_ALONE ? (float)d.slope : d.q * (float)(d.slope - s.middle - s.slope));
        }
        store_as<Y>(a.dstudent.row<Y>(r) + j, a.n - j, dx);
    });
}

template <class F, class T, class Y>
__global__ void __launch_bounds__(MOST_LANES)
    softmax_jsd_kernel(const F f, const softmax_jsd_args a)
{
    __shared__ team_memory memory;
    __shared__ double losses[MOST_LANES / 2];
    team t(&memory, a.lanes);
    const float share = (float)(a.counted ? *a.counted : a.share);
    const float g = share * (a.dloss ? *a.dloss : 1) * a.unit;
    double loss = 0;
    for (int64_t r = t.first; r < a.rows; r += t.step) {
        if (a.labels && a.labels[r] == a.ignore_index) {
            const float zeros[V<T>] = {};
            if (a.dstudent.data)
                for_chunks<T, 0>(t, a.n, [&](int, int j) {
                    store_as<Y>(a.dstudent.row<Y>(r) + j, a.n - j, zeros);
                });
            continue;
        }
        softmax_top top[2];
        find_tops<T>(a, t, r, top);
        const softmax_jsd_sums sums = sum_losses<F, T>(f, a, t, r, top);
        loss += sums.loss;
        if (a.dstudent.data)
            write_gradients<F, T, Y>(f, a, t, r, top, sums, g);
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

/* What both directions are given. */
typedef struct softmax_jsd_call {
    const char *op;
    const tg_tensor *student, *teacher, *labels, *dloss;
    tg_tensor *loss, *dstudent;
    double beta, temperature, grad_scale;
    int64_t ignore_index, first_row, batch_rows;
} softmax_jsd_call;

/* Types of the student's logits and of its gradient: the same, or of f32 logits any. */
template <class RUN> static void by_types(const softmax_jsd_call &c, const RUN &run)
{
    by_type(c.student, [&](auto e) {
        if constexpr (sizeof(e) == 4) {
            by_type(c.dstudent ? c.dstudent : c.student, [&](auto of_y) { run(e, of_y); });
        } else {
            run(e, e);
        }
    });
}

template <class F>
static tg_status run_loss(const F &f, const softmax_jsd_call &c, const cuda_call &call,
                          softmax_jsd_args a)
{
    const int64_t most = (int64_t)call.processors * DIVERGENCE_BLOCKS;
    double *memory = (double *)cuda_host->device_workspace(call.ctx, (size_t)(most + 1) * 8);
    if (!memory)
        return TG_ENOMEM;
    if (c.labels) {
        const int64_t *labels = (const int64_t *)data_of(c.labels);
        a.labels = labels + c.first_row;
        a.counted = memory + most;
        divergence_share<<<1, TOTAL_THREADS, 0, call.stream>>>(
            memory + most, labels, c.batch_rows, a.ignore_index, 1);
    }
    a.partial = c.loss ? memory : NULL;
    int64_t blocks = 0;
    if (a.rows > 0 && a.n > 0)
        by_types(c, [&](auto e, auto of_y) {
            using T = decltype(e);
            const row_shape s = shape_rows(a.rows, ceil_div(a.n, V<T>), FEW, MOST_LANES);
            a.lanes = s.lanes;
            blocks = min_of(most, s.blocks);
            softmax_jsd_kernel<F, T, decltype(of_y)>
                <<<(unsigned)blocks, s.threads, 0, call.stream>>>(f, a);
        });
    if (c.loss)
        divergence_total<<<1, TOTAL_THREADS, 0, call.stream>>>(
            (float *)data_of(c.loss), memory, blocks, a.counted, a.share);
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
    a.per_temperature = 1 / c.temperature;
    c.batch_rows = c.batch_rows ? c.batch_rows : a.rows;
    a.share = c.batch_rows ? 1 / (double)c.batch_rows : 0;
    tg_status status = check_width(c.op, width_of(c.student));
    if (status != TG_OK)
        return status;
    status = cuda_begin(&call, ctx, c.op, c.student);
    if (status != TG_OK)
        return status;
    const double unit = c.grad_scale / c.temperature;
    a.unit = (float)unit;
    if (c.beta == 0) {
        status = run_loss(softmax_jsd_forward_kl(), c, call, a);
    } else if (c.beta == 1) {
        status = run_loss(softmax_jsd_reverse_kl(), c, call, a);
    } else {
        const softmax_jsd_mixture mixture = {c.beta};
        a.unit = (float)(unit * (1 - c.beta));
        status = run_loss(mixture, c, call, a);
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
