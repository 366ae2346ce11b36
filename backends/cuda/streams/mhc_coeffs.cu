/* mhc_coeffs.cu - forward of mhc_coeffs: products of x with phi and with itself, in parts of its
 * columns; then of each token its coefficients. */
#include "mhc_coeffs_products.cuh"
#include "mhc_coeffs_tensor.cuh"

/* ---- coefficients ---- */

/* The sum of the parts of one number of a token. */
__device__ __forceinline__ static float of_parts(const forward_args &a, int64_t token, int column)
{
    float sum = 0;
    for (int s = 0; s < a.splits; s++)
        sum += a.parts[((int64_t)s * a.c.tokens + token) * (a.c.columns + 1) + column];
    return sum;
}

template <int P>
__global__ void __launch_bounds__(COEFFS_THREADS)
    coeffs_kernel(const __grid_constant__ forward_args a)
{
    typedef matrix_lanes<P> lanes;
    const coeffs_args &c = a.c;
    const lanes l(c);
    const int64_t t = ((int64_t)blockIdx.x * COEFFS_THREADS + threadIdx.x) / lanes::LANES;
    const int64_t token = min(t, c.tokens - 1); /* all lanes of a warp take part in its sums */
    const bool there = t < c.tokens;
    wait_for_the_kernel_before();
    const float r = rsqrtf(of_parts(a, token, c.columns) * a.share + a.rms_eps);
    float x[lanes::EACH], p[lanes::EACH];
    const auto mixed = [&](int column) {
        const float mix = of_parts(a, token, column) * r;
        if (there && a.mix)
            a.mix[token * c.columns + column] = mix;
        return logit_of(c, column, mix);
    };
#pragma unroll
    for (int e = 0; e < lanes::EACH; e++)
        x[e] = l.inside(e) ? mixed(2 * c.streams + l.place(e)) : 0;
    if (l.lane < c.streams) {
        const float pre = logistic_of(mixed(l.lane)).value,
                    post = logistic_of(mixed(c.streams + l.lane)).value;
        if (there) {
            a.pre[token * c.streams + l.lane] = pre + a.pre_eps;
            a.post[token * c.streams + l.lane] = post * a.post_multiplier;
        }
    }
    if (there && a.rstd && l.lane == 0)
        a.rstd[token] = r;
    l.begin(x, p);
    for (int k = 1; k < 2 * c.iterations; k++)
        l.step(k, x);
#pragma unroll
    for (int e = 0; e < lanes::EACH; e++)
        if (there && l.inside(e))
            a.res[token * c.streams * c.streams + l.place(e)] = x[e];
}

/* ---- of four streams, the usual number: a lane has a row of a token's matrix ---- */

enum { QUAD = 4, QUAD_TOKENS = 32 / QUAD, QUAD_COLUMNS = QUAD * (QUAD + 2), QUAD_WARPS = 4 };

/* The numbers of a warp's tokens: products with phi, and of x with itself, which becomes rstd. */
struct quad_numbers {
    static constexpr int EACH = QUAD_COLUMNS + 1, ALL = QUAD_TOKENS * EACH;
    float of[ALL];

    /* Of `count` tokens from `first` on. */
    __device__ __forceinline__ void take(const forward_args &a, int64_t first, int count)
    {
        const int lane = (int)threadIdx.x % 32;
        float sum[(ALL + 31) / 32] = {};
#pragma unroll 4
        for (int s = 0; s < a.splits; s++)
#pragma unroll
            for (int i = 0; i < (ALL + 31) / 32; i++)
                if (i * 32 + lane < count * EACH)
                    sum[i] += a.parts[(s * a.c.tokens + first) * EACH + i * 32 + lane];
#pragma unroll
        for (int i = 0; i < (ALL + 31) / 32; i++)
            if (i * 32 + lane < ALL)
                of[i * 32 + lane] = sum[i];
        __syncwarp();
        if (lane < QUAD_TOKENS) {
            float &last = of[lane * EACH + QUAD_COLUMNS];
            last = rsqrtf(last * a.share + a.rms_eps);
            if (a.rstd && lane < count)
                a.rstd[first + lane] = last;
        }
        __syncwarp();
    }
    __device__ __forceinline__ float mix(int token, int column) const
    {
        return of[token * EACH + column] * of[token * EACH + QUAD_COLUMNS];
    }
};

struct quad_row {
    float x[QUAD], eps;

    __device__ __forceinline__ static float sum_of(const float (&v)[QUAD])
    {
        return (v[0] + v[1]) + (v[2] + v[3]);
    }
    /* Logits become softmax + eps. */
    __device__ __forceinline__ void begin()
    {
        const float max = fmaxf(fmaxf(x[0], x[1]), fmaxf(x[2], x[3]));
#pragma unroll
        for (int j = 0; j < QUAD; j++)
            x[j] = expf(x[j] - max);
        const float sum = sum_of(x);
#pragma unroll
        for (int j = 0; j < QUAD; j++)
            x[j] = x[j] / sum + eps;
    }
    __device__ __forceinline__ void over_columns()
    {
        float sum[QUAD] = {x[0], x[1], x[2], x[3]};
#pragma unroll
        for (int o = 1; o < QUAD; o *= 2)
#pragma unroll
            for (int j = 0; j < QUAD; j++)
                sum[j] += __shfl_xor_sync(0xffffffffu, sum[j], o);
#pragma unroll
        for (int j = 0; j < QUAD; j++)
            x[j] *= per_sum(sum[j], eps);
    }
    __device__ __forceinline__ void over_rows()
    {
        const float per = per_sum(sum_of(x), eps);
#pragma unroll
        for (int j = 0; j < QUAD; j++)
            x[j] *= per;
    }
};

__global__ void __launch_bounds__(QUAD_WARPS * 32)
    coeffs_of_four_kernel(const __grid_constant__ forward_args a)
{
    __shared__ quad_numbers all[QUAD_WARPS];
    const coeffs_args &c = a.c;
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, token = lane / QUAD,
              own = lane % QUAD;
    const int64_t first = ((int64_t)blockIdx.x * QUAD_WARPS + warp) * QUAD_TOKENS;
    const int count = (int)min((int64_t)QUAD_TOKENS, c.tokens - first);
    quad_numbers &numbers = all[warp];
    float bias[2 + QUAD];
#pragma unroll
    for (int i = 0; i < 2 + QUAD; i++)
        bias[i] = __ldg(c.bias + (i < 2 ? i * QUAD + own : (2 + own) * QUAD + i - 2));
    const float alpha[3] = {__ldg(c.alpha[0]), __ldg(c.alpha[1]), __ldg(c.alpha[2])};
    wait_for_the_kernel_before();
    if (count <= 0)
        return;
    numbers.take(a, first, count);
    quad_row row = {{}, c.eps};
#pragma unroll
    for (int j = 0; j < QUAD; j++)
        row.x[j] = alpha[2] * numbers.mix(token, (2 + own) * QUAD + j) + bias[2 + j];
    row.begin();
    row.over_columns();
    for (int k = 1; k < c.iterations; k++) {
        row.over_rows();
        row.over_columns();
    }
    if (token < count) {
        const float pre = logistic_of(alpha[0] * numbers.mix(token, own) + bias[0]).value,
                    post = logistic_of(alpha[1] * numbers.mix(token, QUAD + own) + bias[1]).value;
        a.pre[first * QUAD + lane] = pre + a.pre_eps;
        a.post[first * QUAD + lane] = post * a.post_multiplier;
#pragma unroll
        for (int j = 0; j < QUAD; j++)
            a.res[(first * QUAD + lane) * QUAD + j] = row.x[j];
    }
    for (int e = lane; a.mix && e < count * QUAD_COLUMNS; e += 32)
        a.mix[first * QUAD_COLUMNS + e] = numbers.mix(e / QUAD_COLUMNS, e % QUAD_COLUMNS);
}

/* ---- the call ---- */

/* `blocks` of a multiprocessor, in splits of a multiple of `step` columns of x. */
static void cut(const cuda_call &call, forward_args *a, int blocks, int tokens, int step)
{
    const int64_t width = (int64_t)a->c.streams * a->c.n,
                  tiles = call.alike ? 8 : ceil_div(a->c.tokens, tokens),
                  wanted = (int64_t)call.processors * blocks / (tiles > 0 ? tiles : 1),
                  slice = ceil_div(ceil_div(width, wanted > 0 ? wanted : 1), step) * step;
    a->slice = (int)(slice < 256 ? 256 : slice);
    a->splits = (int)ceil_div(width, a->slice);
}

CUDA_OPERATOR(mhc_coeffs_forward, TG_TAKES_FLOATS);

tg_status cuda_mhc_coeffs_forward(tg_ctx *ctx, const tg_mhc_coeffs_forward_args *args)
{
    cuda_call call;
    tg_status status = check_coeffs("mhc_coeffs_forward", args->x, args->iterations);
    if (status == TG_OK)
        status = cuda_begin(&call, ctx, "mhc_coeffs_forward", args->x);
    if (status != TG_OK)
        return status;
    const tg_tensor *const alpha[] = {args->alpha_pre, args->alpha_post, args->alpha_res};
    forward_args a = {};
    a.c = coeffs_of(args->x, args->phi, args->bias, alpha, args->iterations, args->sinkhorn_eps);
    a.pre = (float *)data_of(args->h_pre);
    a.post = (float *)data_of(args->h_post);
    a.res = (float *)data_of(args->h_res);
    a.mix = (float *)data_of(args->mix);
    a.rstd = (float *)data_of(args->rstd);
    a.rms_eps = (float)args->rms_eps;
    a.pre_eps = (float)args->pre_eps;
    a.post_multiplier = (float)args->post_multiplier;
    a.share = 1 / ((float)a.c.streams * (float)a.c.n);
    const bool tensor = suits_tensor_cores(call, args, a.c);
    if (tensor)
        cut(call, &a, 2, WARPS * TOKENS, STEP);
    else
        cut(call, &a, 8, SIDE, DEEP);
    const int tiles = tensor ? tiles_of(a.c.columns) : 0;
    const int64_t parts = a.splits * a.c.tokens * (a.c.columns + 1),
                  packed = tensor ? packed_chunks(a.c, tiles) : 0;
    char *const memory = (char *)cuda_host->device_workspace(
        ctx, (size_t)packed * sizeof(uint4) + (size_t)parts * sizeof(float) + 1);
    if (!memory)
        return cuda_end(&call, TG_ENOMEM);
    a.parts = (float *)(memory + packed * (int64_t)sizeof(uint4));
    if (a.c.tokens > 0) {
        if (tensor)
            launch_tensor(call, args->x, {a, packed ? (uint4 *)memory : NULL, tiles});
        else if (a.splits > 0)
            launch_plain(call, args->x, a);
        if (a.c.streams == QUAD)
            launch_behind(call, coeffs_of_four_kernel,
                          dim3((unsigned)ceil_div(a.c.tokens, QUAD_WARPS * QUAD_TOKENS)),
                          dim3(QUAD_WARPS * 32), a);
        else
            by_streams(a.c.streams, [&](auto size) {
                constexpr int P = LANES_SIDE<decltype(size)::VALUE>;
                const int64_t lanes = a.c.tokens * matrix_lanes<P>::LANES;
                launch_behind(call, coeffs_kernel<P>,
                              dim3((unsigned)ceil_div(lanes, COEFFS_THREADS)), dim3(COEFFS_THREADS),
                              a);
            });
    }
    return cuda_end(&call, TG_OK);
}
