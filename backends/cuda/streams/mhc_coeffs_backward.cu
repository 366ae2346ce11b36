/* mhc_coeffs_backward.cu - backward of mhc_coeffs: of each token the gradient of mix, then dx and
 * dphi, which are products of it, with phi and with x. */
#include "mhc_coeffs_gradients.cuh"
#include "rows/parts.cuh"

/* Teams of lanes go from token to token; a lane sums up what its columns get. */
template <int P>
__global__ void __launch_bounds__(COEFFS_THREADS)
    coeffs_tokens_kernel(const __grid_constant__ backward_args a)
{
    typedef matrix_lanes<P> lanes;
    constexpr int EACH = lanes::EACH;
    const coeffs_args &c = a.c;
    const lanes l(c);
    const int64_t thread = (int64_t)blockIdx.x * COEFFS_THREADS + threadIdx.x,
                  threads = (int64_t)gridDim.x * COEFFS_THREADS, team = thread / lanes::LANES,
                  teams = threads / lanes::LANES;
    const bool sides = l.lane < c.streams; /* the lane has an element of pre and of post */
    float of_res[2][EACH] = {}, of_sides[2][2] = {};
    for (int64_t base = 0; base < c.tokens; base += teams) {
        const int64_t t = base + team; /* all lanes of a warp take part in its sums */
        const bool there = t < c.tokens;
        const int64_t token = there ? t : c.tokens - 1;
        const float r = a.rstd[token], *const mix = a.mix + token * c.columns;
        float x[EACH], d[EACH], q = 0;
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            const int at = l.place(e), column = 2 * c.streams + at;
            x[e] = l.inside(e) ? logit_of(c, column, mix[column]) : 0;
            d[e] = l.inside(e) && a.dres ? a.dres[token * c.streams * c.streams + at] : 0;
        }
        l.begin(x);
        for (int k = 0; k < 2 * c.iterations; k++) {
            if (k > 0)
                l.step(k, x);
#pragma unroll
            for (int e = 0; e < EACH; e++)
                a.history[((int64_t)k * EACH + e) * threads + thread] = x[e];
        }
        for (int k = 2 * c.iterations - 1; k > 0; k--) {
            float from[EACH];
#pragma unroll
            for (int e = 0; e < EACH; e++)
                from[e] = a.history[((int64_t)(k - 1) * EACH + e) * threads + thread];
            l.step_back(k, from, x, d);
#pragma unroll
            for (int e = 0; e < EACH; e++)
                x[e] = from[e];
        }
        l.begin_back(x, d);
        float *const z = a.z + token * c.columns;
        const auto leave = [&](int column, float gradient, float(&sum)[2]) {
            const float product = gradient * mix[column], alpha = alpha_of(c, column);
            q += alpha * product;
            if (there) {
                z[column] = alpha * gradient * r;
                sum[0] += gradient;
                sum[1] += product;
            }
        };
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            float sum[2] = {of_res[0][e], of_res[1][e]};
            if (l.inside(e))
                leave(2 * c.streams + l.place(e), d[e], sum);
            of_res[0][e] = sum[0];
            of_res[1][e] = sum[1];
        }
        if (sides) {
            const int pre = l.lane, post = c.streams + l.lane;
            const logistic s = logistic_of(logit_of(c, pre, mix[pre])),
                           p = logistic_of(logit_of(c, post, mix[post]));
            leave(pre, a.dpre ? a.dpre[token * c.streams + pre] * (s.value * s.rest) : 0,
                  of_sides[0]);
            leave(post,
                  a.dpost
                      ? a.dpost[token * c.streams + l.lane] * a.post_multiplier * (p.value * p.rest)
                      : 0,
                  of_sides[1]);
        }
#pragma unroll
        for (int o = lanes::LANES / 2; o > 0; o /= 2)
            q += __shfl_xor_sync(0xffffffffu, q, o);
        if (there && l.lane == 0)
            a.back[token] = q * r * r * a.share;
    }
    if (!a.sums)
        return;
#pragma unroll
    for (int k = 0; k < 2; k++) {
        float *const to = a.sums + (team * 2 + k) * c.columns;
#pragma unroll
        for (int e = 0; e < EACH; e++)
            if (l.inside(e))
                to[2 * c.streams + l.place(e)] = of_res[k][e];
        if (sides) {
            to[l.lane] = of_sides[0][k];
            to[c.streams + l.lane] = of_sides[1][k];
        }
    }
}

/* The alphas' gradients, from the sums of d mix of all columns: a warp each. */
struct alpha_args {
    const float *sums;
    float *dalpha[3];
    int streams, accumulate;
};

__global__ void coeffs_alpha_kernel(const __grid_constant__ alpha_args a)
{
    const int part = (int)threadIdx.x / 32, count = part < 2 ? a.streams : a.streams * a.streams;
    double sum = 0;
    for (int i = (int)threadIdx.x % 32; i < count; i += 32)
        sum += a.sums[part * a.streams + i];
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0 && a.dalpha[part])
        *a.dalpha[part] = (float)(sum + (a.accumulate ? *a.dalpha[part] : 0));
}

/* ---- the call ---- */

/* Memory of the device in one piece, cut up. */
struct memory_pieces {
    char *at;
    size_t bytes;
    float *take(int64_t floats)
    {
        float *const piece = (float *)(at + bytes);
        bytes += (size_t)ceil_div(floats, 4) * 16;
        return piece;
    }
};

static void place_memory(memory_pieces &pieces, backward_args &a, int64_t threads, int64_t each,
                         bool phi)
{
    const int64_t width = (int64_t)a.c.streams * a.c.n;
    a.z = pieces.take(a.c.tokens * a.c.columns);
    a.back = pieces.take(a.c.tokens);
    a.history = pieces.take(2 * (int64_t)a.c.iterations * each * threads);
    a.parts = phi ? pieces.take(a.splits * width * a.c.columns) : NULL;
}

/* dbias, and the alphas' gradients: the sums of d mix are added to nothing. */
static void sum_small(const cuda_call &call, part_args<2, 0> sums, float *of_mix,
                      const alpha_args &alphas)
{
    sum_parts<float>(call, sums);
    sums.out[0].data = NULL;
    sums.out[1] = {(char *)of_mix, 1};
    sums.accumulate = 0;
    sum_parts<float>(call, sums);
    coeffs_alpha_kernel<<<1, 96, 0, call.stream>>>(alphas);
}

static backward_args args_of(const tg_mhc_coeffs_backward_args *args)
{
    const tg_tensor *const alpha[] = {args->alpha_pre, args->alpha_post, args->alpha_res};
    backward_args a = {};
    a.c = coeffs_of(args->x, args->phi, args->bias, alpha, args->iterations, args->sinkhorn_eps);
    a.dx = span_of(args->dx);
    a.mix = (const float *)data_of(args->mix);
    a.rstd = (const float *)data_of(args->rstd);
    a.dpre = (const float *)data_of(args->dh_pre);
    a.dpost = (const float *)data_of(args->dh_post);
    a.dres = (const float *)data_of(args->dh_res);
    a.dphi = data_of(args->dphi);
    a.dphi_f32 = args->dphi && tg_type_of(args->dphi) == TG_F32;
    a.accumulate = args->accumulate != 0;
    a.post_multiplier = (float)args->post_multiplier;
    a.share = 1 / ((float)a.c.streams * (float)a.c.n);
    return a;
}

CUDA_OPERATOR(mhc_coeffs_backward, TG_TAKES_FLOATS);

tg_status cuda_mhc_coeffs_backward(tg_ctx *ctx, const tg_mhc_coeffs_backward_args *args)
{
    cuda_call call;
    tg_status status = check_coeffs("mhc_coeffs_backward", args->x, args->iterations);
    if (status == TG_OK)
        status = cuda_begin(&call, ctx, "mhc_coeffs_backward", args->x);
    if (status != TG_OK)
        return status;
    backward_args a = args_of(args);
    const int64_t width = (int64_t)a.c.streams * a.c.n, tiles = ceil_div(width, SIDE);
    const int64_t wanted = ceil_div((int64_t)call.processors * 4, tiles > 0 ? tiles : 1);
    a.slice = ceil_div(ceil_div(a.c.tokens, wanted), DEEP) * DEEP;
    a.splits = a.slice ? (int)ceil_div(a.c.tokens, a.slice) : 0;
    by_streams(a.c.streams, [&](auto size) {
        typedef matrix_lanes<decltype(size)::VALUE> lanes;
        const int64_t most = (int64_t)call.processors * 8,
                      blocks = min_of(ceil_div(a.c.tokens * lanes::LANES, COEFFS_THREADS), most),
                      threads = blocks * COEFFS_THREADS;
        float *of_mix = NULL;
        memory_pieces pieces = {NULL, 0};
        part_args<2, 0> sums = {};
        sums.n = a.c.columns;
        sums.accumulate = a.accumulate;
        sums.out[0] = vector_of(args->dbias);
        const bool small = args->dbias || args->dalpha_pre || args->dalpha_post || args->dalpha_res;
        for (int pass = 0; pass < 2 && status == TG_OK; pass++) {
            if (pass == 1)
                pieces = {(char *)cuda_host->device_workspace(ctx, pieces.bytes + 1), 0};
            if (pass == 1 && !pieces.at)
                status = TG_ENOMEM;
            place_memory(pieces, a, threads, lanes::EACH, args->dphi != NULL);
            of_mix = pieces.take(a.c.columns);
        }
        if (status == TG_OK && small)
            status = take_parts(ctx, threads / lanes::LANES, 0, &sums);
        if (status != TG_OK)
            return;
        a.sums = small ? (float *)sums.columns : NULL;
        if (blocks > 0)
            coeffs_tokens_kernel<decltype(size)::VALUE>
                <<<(unsigned)blocks, COEFFS_THREADS, 0, call.stream>>>(a);
        if (small) {
            const alpha_args alphas = {of_mix,
                                       {(float *)data_of(args->dalpha_pre),
                                        (float *)data_of(args->dalpha_post),
                                        (float *)data_of(args->dalpha_res)},
                                       a.c.streams,
                                       a.accumulate};
            sum_small(call, sums, of_mix, alphas);
        }
        if (width > 0)
            launch_products(call, args, a);
    });
    return cuda_end(&call, status);
}
