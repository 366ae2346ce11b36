// multi_token_attention.cu - probabilities of causal attention, a block for each row, and their
// convolution over queries and keys, a thread for some elements of a column; likewise their
// gradients. Only the triangle is computed.
#include "rows/parts.cuh"
#include "rows/rows.cuh"

enum {
    MTA_THREADS = 128,
    MTA_ROWS = 4, /* of a column, that a thread of the convolution has */
    MTA_HELD = 40 * 1024 / (int)sizeof(float) /* gradients of a row that a block keeps, at most */
};

struct mta_args {
    row_span scores, probs, y, dy, dscores;
    vector_span weight, bias;
    int64_t batch, in, out, length; /* in, out: channels */
    int64_t groups, width, dilation, above, before;
    int sparse;
    float *sums;   /* of each part, [count]; of dweight, or of dbias, which has no taps */
    int64_t count; /* of sums */
    int has_taps;
};

/* ---- sums of a block, for all its threads ---- */

struct mta_add {
    static __device__ __forceinline__ float of(float a, float b)
    {
        return a + b;
    }
};
struct mta_most {
    static __device__ __forceinline__ float of(float a, float b)
    {
        return a > b || a != a ? a : b;
    }
};

template <class OP> __device__ __forceinline__ static float mta_all(float value)
{
    __shared__ float warps[MTA_THREADS / 32];
    for (int o = 16; o > 0; o /= 2)
        value = OP::of(value, __shfl_xor_sync(0xffffffffu, value, o));
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = value;
    __syncthreads();
    value = warps[0];
    for (int k = 1; k < MTA_THREADS / 32; k++)
        value = OP::of(value, warps[k]);
    return value;
}

/* ---- probabilities ---- */

/* tau, relative to the largest score: elements that are not above the mean excess of those that are
 * left fall out, until none does. */
template <class T>
__device__ __forceinline__ static float mta_tau(const T *x, int64_t n, float most)
{
    float tau = -1, kept = 0;
    for (float before = -1; kept != before;) {
        float sum = 0, count = 0;
        for (int64_t j = threadIdx.x; j < n; j += MTA_THREADS) {
            const float z = get(x + j) - most;
            sum += z > tau ? z : 0;
            count += z > tau ? 1 : 0;
        }
        before = kept;
        sum = mta_all<mta_add>(sum);
        kept = mta_all<mta_add>(count);
        tau = kept > 0 ? (sum - 1) / kept : tau;
    }
    return tau;
}

template <class T> __global__ void __launch_bounds__(MTA_THREADS) mta_probs_kernel(const mta_args a)
{
    const int64_t row = blockIdx.x + (int64_t)blockIdx.y * a.length, n = row % a.length + 1;
    const T *const x = a.scores.row<T>(row);
    T *const p = a.probs.row<T>(row);
    float most = -CUDART_INF_F, sum = 0, tau = 0;
    for (int64_t j = threadIdx.x; j < n; j += MTA_THREADS)
        most = mta_most::of(get(x + j), most);
    most = mta_all<mta_most>(most);
    if (a.sparse) {
        tau = mta_tau(x, n, most);
    } else {
        for (int64_t j = threadIdx.x; j < n; j += MTA_THREADS)
            sum += exp_of(get(x + j) - most);
        sum = mta_all<mta_add>(sum);
    }
    for (int64_t j = threadIdx.x; j < a.length; j += MTA_THREADS) {
        const float z = j < n ? get(x + j) - most : 0;
        put(p + j, j >= n ? 0.0f : a.sparse ? fmaxf(z - tau, 0) : exp_of(z) / sum);
    }
}

/* ---- the convolution ---- */

/* Element (i,j) of a channel's lower triangle; 0 elsewhere. */
template <class T>
__device__ __forceinline__ static float mta_lower(const mta_args &a, const row_span &from,
                                                  int64_t channel, int64_t i, int64_t j)
{
    const bool inside = i >= 0 && i < a.length && j >= 0 && j <= i;
    return inside ? get(from.row<T>(channel * a.length + i) + j) : 0.0f;
}

/* Weight [o,c,row,column], c in the group. */
template <class T>
__device__ __forceinline__ static float mta_weight(const mta_args &a, int64_t o, int64_t c,
                                                   int64_t row, int64_t column)
{
    return get<T>(a.weight, ((o * (a.in / a.groups) + c) * a.width + row) * a.width + column);
}

/* A block has a part of some rows of a channel of y. */
template <class T>
__global__ void __launch_bounds__(MTA_THREADS) mta_forward_kernel(const mta_args a)
{
    const int64_t channel = blockIdx.z, o = channel % a.out, first = (int64_t)blockIdx.y * MTA_ROWS;
    const int64_t j = (int64_t)blockIdx.x * MTA_THREADS + threadIdx.x, ins = a.in / a.groups;
    const int64_t from = channel / a.out * a.in + o / (a.out / a.groups) * ins;
    const float bias = a.bias.data ? get<T>(a.bias, o) : 0;
    float sum[MTA_ROWS] = {};
    if (j >= a.length)
        return;
    for (int64_t c = 0; c < ins && j < first + MTA_ROWS; c++)
        for (int64_t row = 0; row < a.width; row++)
            for (int64_t column = 0; column < a.width; column++) {
                const float by = mta_weight<T>(a, o, c, row, column);
#pragma unroll
                for (int k = 0; k < MTA_ROWS; k++)
                    sum[k] += by * mta_lower<T>(a, a.probs, from + c,
                                                first + k + row * a.dilation - a.above,
                                                j + column * a.dilation - a.before);
            }
#pragma unroll
    for (int k = 0; k < MTA_ROWS; k++)
        if (first + k < a.length)
            put(a.y.row<T>(channel * a.length + first + k) + j,
                j <= first + k ? sum[k] + bias : 0.0f);
}

/* ---- gradients ---- */

/* The gradient of a probability. */
template <class T>
__device__ __forceinline__ static float mta_dprob(const mta_args &a, int64_t channel, int64_t i,
                                                  int64_t j)
{
    const int64_t ins = a.in / a.groups, outs = a.out / a.groups, c = channel % a.in;
    const int64_t entry = channel / a.in, group = c / ins;
    float sum = 0;
    for (int64_t o = group * outs; o < (group + 1) * outs; o++)
        for (int64_t row = 0; row < a.width; row++)
            for (int64_t column = 0; column < a.width; column++)
                sum += mta_weight<T>(a, o, c % ins, row, column) *
                       mta_lower<T>(a, a.dy, entry * a.out + o, i - row * a.dilation + a.above,
                                    j - column * a.dilation + a.before);
    return sum;
}

/* A row of scores. Its gradients of probabilities are kept, if they fit, or computed again. */
template <class T>
__global__ void __launch_bounds__(MTA_THREADS) mta_scores_kernel(const mta_args a)
{
    extern __shared__ float held[];
    const int64_t i = blockIdx.x, channel = blockIdx.y, row = channel * a.length + i;
    const bool keep = a.length <= MTA_HELD;
    const T *const p = a.probs.row<T>(row);
    float sum = 0, count = 0;
    for (int64_t j = threadIdx.x; j <= i; j += MTA_THREADS) {
        const float dp = mta_dprob<T>(a, channel, i, j), x = get(p + j);
        const float part = a.sparse && x > 0 ? 1 : x;
        sum += part * dp;
        count += part;
        if (keep)
            held[j] = dp;
    }
    sum = mta_all<mta_add>(sum);
    count = mta_all<mta_add>(count);
    const float mean = a.sparse ? sum / count : sum;
    for (int64_t j = threadIdx.x; j < a.length; j += MTA_THREADS) {
        float result = 0;
        if (j <= i) {
            const float dp = keep ? held[j] : mta_dprob<T>(a, channel, i, j), x = get(p + j);
            result = (a.sparse && x > 0 ? 1 : x) * (dp - mean);
        }
        put(a.dscores.row<T>(row) + j, result);
    }
}

/* A block has one sum, of a tap or of a channel's bias, over every gridDim.y-th row of dy. */
template <class T>
__global__ void __launch_bounds__(MTA_THREADS) mta_parameters_kernel(const mta_args a)
{
    const int64_t ins = a.in / a.groups, taps = a.width * a.width;
    const int64_t tap = blockIdx.x % taps, pair = blockIdx.x / taps;
    const int64_t o = a.has_taps ? pair / ins : blockIdx.x;
    const int64_t c = o / (a.out / a.groups) * ins + pair % ins;
    const int64_t down = tap / a.width * a.dilation - a.above;
    const int64_t right = tap % a.width * a.dilation - a.before;
    double sum = 0;
    for (int64_t r = blockIdx.y; r < a.batch * a.length; r += gridDim.y) {
        const int64_t entry = r / a.length, i = r % a.length;
        const T *const g = a.dy.row<T>((entry * a.out + o) * a.length + i);
        float part = 0;
        for (int64_t j = threadIdx.x; j <= i; j += MTA_THREADS)
            part += get(g + j) *
                    (a.has_taps ? mta_lower<T>(a, a.probs, entry * a.in + c, i + down, j + right)
                                : 1.0f);
        sum += part;
    }
    sum = block_sum<MTA_THREADS>(sum);
    if (threadIdx.x == 0)
        a.sums[blockIdx.y * a.count + blockIdx.x] = (float)sum;
}

/* ---- calls ---- */

static mta_args args_of(const tg_tensor *probs, const tg_tensor *weight, int64_t groups,
                        int64_t dilation, int64_t padding, int64_t sparse, int64_t causal_queries)
{
    mta_args a = {};
    a.probs = span_of(probs);
    a.weight = vector_of(weight);
    a.batch = probs->shape[0];
    a.in = probs->shape[1];
    a.length = probs->shape[2];
    a.out = weight->shape[0];
    a.width = weight->shape[3];
    a.groups = groups;
    a.dilation = dilation;
    a.before = padding;
    a.above = causal_queries ? (a.width - 1) * dilation : padding;
    a.sparse = (int)sparse;
    return a;
}

CUDA_OPERATOR(multi_token_attention_forward, TG_TAKES_FLOATS);
CUDA_OPERATOR(multi_token_attention_backward, TG_TAKES_FLOATS);

/* What a grid has room for beyond its first dimension. */
static tg_status check_grid(const char *op, const mta_args &a)
{
    const int64_t most = a.batch * (a.in > a.out ? a.in : a.out);
    if (most <= 65535 && ceil_div(a.length, MTA_ROWS) <= 65535)
        return TG_OK;
    return cuda_host->fail(TG_EUNSUPPORTED,
                           "%s: %lld channels of %lld rows, at most 65535 of 262140", op,
                           (long long)most, (long long)a.length);
}

tg_status cuda_multi_token_attention_forward(tg_ctx *ctx,
                                             const tg_multi_token_attention_forward_args *args)
{
    static const char op[] = "multi_token_attention_forward";
    mta_args a = args_of(args->probs, args->weight, args->groups, args->dilation, args->padding,
                         args->sparse, args->causal_queries);
    a.scores = span_of(args->scores);
    a.y = span_of(args->y);
    a.bias = vector_of(args->bias);
    const tg_status status = check_grid(op, a);
    if (status != TG_OK)
        return status;
    cuda_call call;
    const tg_status begun = cuda_begin(&call, ctx, op, args->probs);
    if (begun != TG_OK)
        return begun;
    const int64_t rows = ceil_div(a.length, MTA_ROWS), columns = ceil_div(a.length, MTA_THREADS);
    by_type(args->probs, [&](auto e) {
        using T = decltype(e);
        const dim3 each((unsigned)a.length, (unsigned)(a.batch * a.in));
        const dim3 grid((unsigned)columns, (unsigned)rows, (unsigned)(a.batch * a.out));
        if (a.length && a.batch * a.in)
            mta_probs_kernel<T><<<each, MTA_THREADS, 0, call.stream>>>(a);
        if (a.length && a.batch * a.out)
            mta_forward_kernel<T><<<grid, MTA_THREADS, 0, call.stream>>>(a);
    });
    return cuda_end(&call, TG_OK);
}

/* The gradient `out` of the weight or of the bias. */
template <class T>
static tg_status parameters(const cuda_call &call, mta_args a, const tg_tensor *out, int has_taps,
                            int64_t accumulate)
{
    part_args<1, 0> sums = {};
    if (!out || tg_numel(out) == 0)
        return TG_OK;
    const int64_t rows = a.batch * a.length, wanted = (int64_t)call.processors * 16;
    const int64_t parts = min_of(min_of(ceil_div(wanted, tg_numel(out)), rows), 65535);
    a.count = tg_numel(out);
    a.has_taps = has_taps;
    sums.n = (int)a.count;
    sums.accumulate = (int)accumulate;
    sums.out[0] = vector_of(out);
    const tg_status status = take_parts(call.ctx, parts, 0, &sums);
    if (status != TG_OK)
        return status;
    a.sums = (float *)sums.columns;
    if (parts)
        mta_parameters_kernel<T>
            <<<dim3((unsigned)a.count, (unsigned)parts), MTA_THREADS, 0, call.stream>>>(a);
    sum_parts<T>(call, sums);
    return TG_OK;
}

tg_status cuda_multi_token_attention_backward(tg_ctx *ctx,
                                              const tg_multi_token_attention_backward_args *args)
{
    static const char op[] = "multi_token_attention_backward";
    mta_args a = args_of(args->probs, args->weight, args->groups, args->dilation, args->padding,
                         args->sparse, args->causal_queries);
    a.dy = span_of(args->dy);
    a.dscores = span_of(args->dscores);
    tg_status status = check_grid(op, a);
    cuda_call call;
    if (status != TG_OK)
        return status;
    status = cuda_begin(&call, ctx, op, args->probs);
    if (status != TG_OK)
        return status;
    by_type(args->probs, [&](auto e) {
        using T = decltype(e);
        const dim3 each((unsigned)a.length, (unsigned)(a.batch * a.in));
        const size_t shared = a.length <= MTA_HELD ? (size_t)a.length * sizeof(float) : 0;
        status = parameters<T>(call, a, args->dweight, 1, args->accumulate);
        if (status == TG_OK)
            status = parameters<T>(call, a, args->dbias, 0, args->accumulate);
        if (status == TG_OK && a.length && a.batch * a.in)
            mta_scores_kernel<T><<<each, MTA_THREADS, shared, call.stream>>>(a);
    });
    return cuda_end(&call, status);
}
