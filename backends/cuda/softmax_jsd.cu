/* softmax_jsd.cu - the generalised Jensen-Shannon divergence of the softmaxes of two rows of logits, and the gradient of the student's.
 *
 * A row is a team's. It is read once for the largest logits and the sums of exponentials, once for the loss and the sum of its
 * gradients, and once more for the gradients, from L2 by then. The student's largest class stands apart from both sums: of a row that the
 * student predicts with near certainty, 1 - q of that class and its gradient keep their digits. */
#include "jsd.cuh"
#include "rows.cuh"

struct softmax_jsd_args {
    row_span student, teacher, dstudent; /* dstudent.data NULL: no gradient */
    const int64_t *labels;               /* of these rows; NULL: all count */
    const float *dloss;                  /* NULL: 1 */
    const double *counted;               /* 1 / n; NULL: share */
    double *partial;                     /* losses of a block; NULL: no loss */
    int64_t rows, ignore_index;
    double share;
    float per_temperature, grad_scale;
    int n, lanes;
};

/* The largest logit of a row, the first of its kind, and log(1 + the sum of exp(x - largest) over the others). */
struct softmax_top {
    float max, others, log_sum;
    int at;
};

struct first_index {
    __device__ __forceinline__ float operator()(float a, float b) const
    {
        return __int_as_float(min(__float_as_int(a), __float_as_int(b)));
    }
};

/* What a thread has seen. */
struct softmax_part {
    float max, others;
    int at;
    __device__ __forceinline__ void add(float x, int i)
    {
        if (x > max) {
            others = at == INT32_MAX ? others : (others + 1) * expf(max - x);
            max = x;
            at = i;
        } else {
            others += at == INT32_MAX ? (x == x ? 0 : x) : expf(x - max);
        }
    }
};

/* Of both rows at once. */
__device__ __forceinline__ static void join(team &t, const softmax_part (&part)[2],
                                            softmax_top (&top)[2])
{
    float max[2], at[2], others[2];
#pragma unroll
    for (int m = 0; m < 2; m++)
        max[m] = part[m].max;
    t.reduce(max, larger());
#pragma unroll
    for (int m = 0; m < 2; m++)
        at[m] = __int_as_float(part[m].max == max[m] ? part[m].at : INT32_MAX);
    t.reduce(at, first_index());
#pragma unroll
    for (int m = 0; m < 2; m++) {
        const float scale = part[m].at == INT32_MAX ? 1 : expf(part[m].max - max[m]);
        const bool joins = part[m].at != INT32_MAX && part[m].at != __float_as_int(at[m]);
        others[m] = (part[m].others + (joins ? 1 : 0)) * scale;
    }
    t.sum(others);
#pragma unroll
    for (int m = 0; m < 2; m++) {
        top[m].max = max[m];
        top[m].at = __float_as_int(at[m]);
        top[m].others = others[m];
        top[m].log_sum = log1pf(others[m]);
    }
}

__device__ __forceinline__ static float log_softmax(const softmax_top &top, float x)
{
    return (x - top.max) - top.log_sum;
}

/* each(j, x, y): chunks of both rows, divided by the temperature. */
template <class T, class EACH>
__device__ __forceinline__ static void for_pairs(const softmax_jsd_args &a, const team &t,
                                                 int64_t r, const EACH &each)
{
    const T *const student = a.student.row<T>(r), *const teacher = a.teacher.row<T>(r);
    for_chunks<T, 0>(t, a.n, [&](int, int j) {
        float x[V<T>], y[V<T>];
        widen<T>(load(student + j, a.n - j, MINUS_INFINITY<T>), x);
        widen<T>(load(teacher + j, a.n - j, MINUS_INFINITY<T>), y);
#pragma unroll
        for (int i = 0; i < V<T>; i++) {
            x[i] *= a.per_temperature;
            y[i] *= a.per_temperature;
        }
        each(j, x, y);
    });
}

/* The sums of a row: its loss, and the gradients of the student's largest class and of the others. */
struct softmax_jsd_sums {
    float loss, of_top, of_others;
};

template <class F, class T>
__device__ __forceinline__ static softmax_jsd_sums
sum_losses(const F &f, const softmax_jsd_args &a, team &t, int64_t r, const softmax_top (&top)[2])
{
    float sums[3] = {0, 0, 0};
    for_pairs<T>(a, t, r, [&](int j, const float(&x)[V<T>], const float(&y)[V<T>]) {
#pragma unroll
        for (int i = 0; i < V<T>; i++) {
            if (j + i >= a.n)
                continue;
            const divergence d = f(log_softmax(top[0], x[i]), log_softmax(top[1], y[i]));
            sums[0] += d.loss;
            sums[j + i == top[0].at ? 1 : 2] += d.gradient;
        }
    });
    t.sum(sums);
    return {sums[0], sums[1], sums[2]};
}

template <class F, class T, class Y>
__device__ __forceinline__ static void
write_gradients(const F &f, const softmax_jsd_args &a, team &t, int64_t r,
                const softmax_top (&top)[2], const softmax_jsd_sums &sums, float g)
{
    const float uncertain = top[0].others / (1 + top[0].others); /* 1 - q of the largest class */
    const float all = sums.of_top + sums.of_others;
    for_pairs<T>(a, t, r, [&](int j, const float(&x)[V<T>], const float(&y)[V<T>]) {
        float dx[V<T>];
#pragma unroll
        for (int i = 0; i < V<T>; i++) {
            const float log_q = log_softmax(top[0], x[i]), q = expf(log_q);
            const float d = f(log_q, log_softmax(top[1], y[i])).gradient;
            dx[i] = g * (j + i == top[0].at ? d * uncertain - q * sums.of_others : d - q * all);
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
    const float g = share * (a.dloss ? *a.dloss : 1) * a.grad_scale * a.per_temperature;
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
        softmax_part part[2] = {{-CUDART_INF_F, 0, INT32_MAX}, {-CUDART_INF_F, 0, INT32_MAX}};
        softmax_top top[2];
        for_pairs<T>(a, t, r, [&](int j, const float(&x)[V<T>], const float(&y)[V<T>]) {
#pragma unroll
            for (int i = 0; i < V<T>; i++) {
                part[0].add(x[i], j + i);
                part[1].add(y[i], j + i);
            }
        });
        join(t, part, top);
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
        divergence_share<<<1, DIVERGENCE_THREADS, 0, call.stream>>>(
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
        divergence_total<<<1, DIVERGENCE_THREADS, 0, call.stream>>>(
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
    a.per_temperature = (float)(1 / c.temperature);
    a.grad_scale = (float)c.grad_scale;
    c.batch_rows = c.batch_rows ? c.batch_rows : a.rows;
    a.share = c.batch_rows ? 1 / (double)c.batch_rows : 0;
    tg_status status = check_width(c.op, width_of(c.student));
    if (status != TG_OK)
        return status;
    status = cuda_begin(&call, ctx, c.op, c.student);
    if (status != TG_OK)
        return status;
    status = by_beta(c.beta, [&](auto loss) { return run_loss(loss, c, call, a); });
    const tg_status end = cuda_end(&call);
    return status != TG_OK ? status : end;
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
