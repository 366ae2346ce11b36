/* mhc_coeffs_backward.cu - backward of mhc_coeffs: of each token the gradient of mix, then dx and
 * dphi, which are products of it, with phi and with x. */
#include "mhc_coeffs_slabs.cuh"
#include "mhc_coeffs_tokens.cuh"
#include "mhc_coeffs_warps.cuh"

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

/* What a call is made of besides its arguments. */
struct backward_shape {
    bool slabs;     /* dx and dphi by slabs */
    bool small;     /* gradients of bias or of the alphas are asked for */
    int64_t blocks; /* of the kernel over tokens */
    size_t shared;  /* bytes of each of them */
};

/* Splits of the tokens for so many blocks across the columns of x, a multiple of `step` each. */
static void cut_tokens(backward_args *a, int64_t across, int64_t blocks, int step)
{
    const int64_t wanted = blocks / (across > 0 ? across : 1);
    a->slice = ceil_div(ceil_div(a->c.tokens, wanted > 0 ? wanted : 1), step) * step;
    a->splits = a->slice ? (int)ceil_div(a->c.tokens, a->slice) : 0;
}

/* The kernel over tokens: its threads, tokens that a block has at a time, numbers of the history of
 * a thread, and bytes of shared memory besides. */
template <int P> struct tokens_shape {
    typedef matrix_lanes<P> lanes;
    static constexpr int THREADS = OF_THREADS<P> ? (int)WARP : (int)COEFFS_THREADS,
                         TOKENS = OF_THREADS<P> ? (int)WARP : COEFFS_THREADS / lanes::LANES;
    static int64_t history(int64_t iterations)
    {
        return OF_THREADS<P> ? (iterations - 1) * P * P : (2 * iterations - 1) * lanes::EACH;
    }
};

template <int P>
static backward_shape shape_of(const cuda_call &call, const tg_mhc_coeffs_backward_args *args,
                               backward_args *a)
{
    enum { BLOCKS = 8 /* of a multiprocessor */ };
    typedef tokens_shape<P> shape;
    const int64_t width = (int64_t)a->c.streams * a->c.n;
    const size_t history =
                     (size_t)(shape::history(a->c.iterations) * shape::THREADS) * sizeof(float),
                 most = OF_THREADS<P> ? 38 << 10 : 24 << 10,
                 sums =
                     OF_THREADS<P> ? 0 : (size_t)(shape::TOKENS * 2 * a->c.columns) * sizeof(float);
    backward_shape s = {};
    s.slabs = suits_slabs(call, args, a->c);
    s.small = args->dbias || args->dalpha_pre || args->dalpha_post || args->dalpha_res;
    s.blocks = min_of(ceil_div(a->c.tokens, shape::TOKENS), (int64_t)call.processors * BLOCKS);
    s.shared = history <= most && history > sums ? history : sums;
    a->padded = s.slabs ? units_of(a->c.columns) * UNIT : 0;
    if (s.slabs)
        cut_tokens(a, ceil_div(width, SLAB), (int64_t)call.processors * 2, SLAB_TOKENS);
    else
        cut_tokens(a, ceil_div(width, SIDE), (int64_t)call.processors * 4, DEEP);
    return s;
}

/* Memory of the device in one piece, cut up. */
struct memory_pieces {
    char *at;
    size_t bytes;
    float *take(bool wanted, int64_t floats)
    {
        float *const piece = (float *)(at + bytes);
        bytes += wanted ? (size_t)ceil_div(floats, 4) * 16 : 0;
        return wanted ? piece : NULL;
    }
};

template <int P>
static void place_memory(memory_pieces &pieces, const backward_shape &s, bool phi, backward_args *a)
{
    const int64_t width = (int64_t)a->c.streams * a->c.n,
                  history = tokens_shape<P>::history(a->c.iterations) * tokens_shape<P>::THREADS;
    a->z = pieces.take(!s.slabs, a->c.tokens * a->c.columns);
    a->split = (bf16 *)pieces.take(s.slabs, ceil_div(a->c.tokens * Z_PARTS * a->padded, 2));
    a->back = pieces.take(true, a->c.tokens);
    a->history = pieces.take(history * sizeof(float) > s.shared, history * s.blocks);
    a->sums = pieces.take(s.small, s.blocks * 2 * a->c.columns);
    a->parts = pieces.take(phi, a->splits * width * a->c.columns);
}

template <class T>
static void launch_products(const cuda_call &call, bool slabs, const backward_args &a)
{
    const int64_t n = (int64_t)a.c.streams * a.c.n * a.c.columns;
    if (n == 0)
        return;
    if constexpr (sizeof(T) == 2) {
        if (slabs && a.c.tokens > 0)
            launch_slabs<T>(call, a);
    }
    if (!slabs && a.c.tokens > 0)
        launch_tiles<T>(call, a);
    if (a.parts)
        launch_behind(call, coeffs_sum_kernel<T>, dim3((unsigned)ceil_div(n, TILE_THREADS)),
                      dim3(TILE_THREADS), a);
}

template <int P> static auto tokens_kernel()
{
    if constexpr (OF_THREADS<P>)
        return coeffs_tokens_of_threads_kernel<P>;
    else
        return coeffs_tokens_kernel<P>;
}

template <int P>
static tg_status run(const cuda_call &call, const tg_mhc_coeffs_backward_args *args)
{
    backward_args a = args_of(args);
    const backward_shape s = shape_of<P>(call, args, &a);
    memory_pieces pieces = {NULL, 0};
    place_memory<P>(pieces, s, args->dphi != NULL, &a);
    pieces = {(char *)cuda_host->device_workspace(call.ctx, pieces.bytes + 1), 0};
    if (!pieces.at)
        return TG_ENOMEM;
    place_memory<P>(pieces, s, args->dphi != NULL, &a);
    if (s.blocks > 0)
        tokens_kernel<P>()<<<(unsigned)s.blocks, tokens_shape<P>::THREADS, s.shared, call.stream>>>(
            a);
    by_type(args->x, [&](auto e) { launch_products<decltype(e)>(call, s.slabs, a); });
    const small_args small = {a.sums,
                              (float *)data_of(args->dbias),
                              {(float *)data_of(args->dalpha_pre),
                               (float *)data_of(args->dalpha_post),
                               (float *)data_of(args->dalpha_res)},
                              (int)s.blocks,
                              a.c.streams,
                              a.c.columns,
                              a.accumulate};
    if (s.small)
        launch_behind(call, coeffs_small_kernel, dim3(1), dim3(SMALL_THREADS), small);
    return TG_OK;
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
    by_streams(streams_of(args->x),
               [&](auto size) { status = run<decltype(size)::VALUE>(call, args); });
    return cuda_end(&call, status);
}
