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

/* ---- the call ---- */

/* `blocks` of a multiprocessor, in splits of a multiple of `step` columns of x. */
static void cut(const cuda_call &call, forward_args *a, int blocks, int tokens, int step)
{
    const int64_t width = (int64_t)a->c.streams * a->c.n,
                  tiles = call.alike ? 32 : ceil_div(a->c.tokens, tokens),
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
        by_streams(a.c.streams, [&](auto size) {
            constexpr int P = LANES_SIDE<decltype(size)::VALUE>;
            const int64_t lanes = a.c.tokens * matrix_lanes<P>::LANES;
            launch_behind(call, coeffs_kernel<P>, dim3((unsigned)ceil_div(lanes, COEFFS_THREADS)),
                          dim3(COEFFS_THREADS), a);
        });
    }
    return cuda_end(&call, TG_OK);
}
