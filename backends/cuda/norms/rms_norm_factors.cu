/* rms_norm_factors.cu - backward of rms_norm with a gate or a scale. Of the sums over the rows of a
 * group, dscale is weight products, and dweight the sum of (1 + scale) products over the groups. */
#include "rms_norm_factors.cuh"

/* dscale and dshift of each group, and of its products what dweight adds up. */
struct group_args {
    const float *partial; /* [groups, units, 2, n] */
    float *dweight;       /* [groups, n]; NULL: not asked for */
    row_span scale, dscale, dshift;
    vector_span weight;
    int64_t groups;
    int n, units, scale_f32, dscale_f32, dshift_f32;
    float offset;
};

__device__ __forceinline__ static vector_span row_of(const row_span &s, int64_t r, int f32)
{
    vector_span v = {s.data + r * s.stride, f32};
    return v;
}

template <class T>
__global__ void __launch_bounds__(COLUMN_THREADS) group_kernel(const group_args a)
{
    const int j = (int)(blockIdx.x * COLUMN_THREADS + threadIdx.x);
    if (j >= a.n)
        return;
    const float weight = a.weight.data ? a.offset + get<T>(a.weight, j) : 1;
    for (int64_t group = blockIdx.y; group < a.groups; group += gridDim.y) {
        float products = 0, shift = 0;
        for (int u = 0; u < a.units; u++) {
            const float *const part = a.partial + (group * a.units + u) * 2 * a.n + j;
            products += part[0];
            shift += part[a.n];
        }
        if (a.dscale.data)
            put_sum<T>(row_of(a.dscale, group, a.dscale_f32), j, weight * products, 0);
        if (a.dshift.data)
            put_sum<T>(row_of(a.dshift, group, a.dshift_f32), j, shift, 0);
        if (a.dweight)
            a.dweight[group * a.n + j] =
                (1 + get<T>(row_of(a.scale, group, a.scale_f32), j)) * products;
    }
}

/* ---- the host's side ---- */

enum {
    MOST_GROUPS = 65535, /* that a grid has side by side */
    USUAL_GROUPS = 8     /* taken for their number where sums of a group do not depend on it */
};

/* Groups that share the card, by which the rows of each are cut. */
static int64_t sharing(const cuda_call &call, int64_t groups)
{
    return call.alike ? (int64_t)USUAL_GROUPS : groups;
}

static tg_status take_memory(const cuda_call &call, int64_t floats, float **memory)
{
    *memory = (float *)cuda_host->device_workspace(call.ctx, (size_t)floats * sizeof(float) + 1);
    return *memory ? TG_OK : TG_ENOMEM;
}

/* Rows that are held. Returns false if the card has no room for a row. */
template <class T, bool GATED>
static bool launch_held(const cuda_call &call, factor_args &a, bool wanted, tg_status *status)
{
    static kernel_room known;
    const int64_t groups = min_of(a.groups, MOST_GROUPS);
    const row_shape s = shape_rows(a.height, chunks_of_row<T>(a.n), FEW, STREAM_THREADS,
                                   most_ranks(call), STREAM_THREADS);
    const int sums = FEW * V<T> / 4, rows = factor_rows<T, FEW, GATED>::CHUNKS;
    const size_t shared = bytes_of_chunks(s, rows > sums ? rows : sums);
    const auto kernel = factor_kernel<T, FEW, GATED>;
    const int room = s.held ? room_for(call, s, shared, &known, kernel) : -1;
    if (room < 0)
        return false;
    /* a team's rows begin alike */
    const int64_t alike = element<T>::WHOLE ? 1 : MOST_STARTS,
                  share = ceil_div(ceil_div(room, sharing(call, groups) * s.ranks), alike) * alike,
                  units = min_of(s.blocks / s.ranks, share);
    a.lanes = lanes_of(call, s.lanes);
    a.units = units > 0 ? (int)units : 1;
    if (wanted)
        *status = take_memory(call, a.groups * a.units * COLUMNS_OF<GATED> * a.n, &a.partial);
    cudaLaunchAttribute cluster;
    cudaLaunchConfig_t config = config_of(call, s, shared, &cluster);
    config.gridDim = dim3((unsigned)(a.units * s.ranks), (unsigned)groups);
    if (*status == TG_OK)
        cudaLaunchKernelEx(&config, kernel, a);
    return true;
}

/* Rows that are walked: the columns first, since dx may overwrite dy. */
template <class T, bool GATED>
static tg_status launch_walked(const cuda_call &call, factor_args &a, bool wanted)
{
    const int64_t groups = min_of(a.groups, MOST_GROUPS),
                  across = ceil_div(ceil_div(a.n, V<T>), COLUMN_THREADS),
                  down = ceil_div((int64_t)call.processors * 8, across * sharing(call, groups));
    const dim3 rows((unsigned)min_of(a.height > 0 ? a.height : 1, INT32_MAX), (unsigned)groups);
    a.units = (int)min_of(rows.x, down);
    a.lanes = lanes_of(call, STREAM_THREADS);
    if (wanted) {
        const tg_status status =
            take_memory(call, a.groups * a.units * COLUMNS_OF<GATED> * a.n, &a.partial);
        if (status != TG_OK)
            return status;
        factor_columns_kernel<T, GATED>
            <<<dim3((unsigned)across, (unsigned)a.units, (unsigned)groups), COLUMN_THREADS, 0,
               call.stream>>>(a);
    }
    factor_kernel<T, 0, GATED><<<rows, STREAM_THREADS, 0, call.stream>>>(a);
    return TG_OK;
}

/* dx, dgate and the parts of the sums. */
template <class T, bool GATED>
static tg_status launch_factors(const cuda_call &call, factor_args &a, bool wanted)
{
    tg_status status = TG_OK;
    if (a.groups > 0 && !launch_held<T, GATED>(call, a, wanted, &status))
        status = launch_walked<T, GATED>(call, a, wanted);
    return status;
}

/* dscale, dshift, and the parts of dweight in place of those of the products. */
template <class T>
static tg_status finish_groups(const cuda_call &call, const factor_args &a,
                               const tg_rms_norm_backward_args *args, float **dweight)
{
    group_args g = {};
    g.partial = a.partial;
    g.scale = a.scale;
    g.dscale = span_of(args->dscale);
    g.dshift = span_of(args->dshift);
    g.weight = a.weight;
    g.groups = a.groups;
    g.n = a.n;
    g.units = a.units;
    g.scale_f32 = a.scale_f32;
    g.dscale_f32 = args->dscale && tg_type_of(args->dscale) == TG_F32;
    g.dshift_f32 = args->dshift && tg_type_of(args->dshift) == TG_F32;
    g.offset = a.offset;
    if (args->dweight) {
        const tg_status status = take_memory(call, a.groups * a.n, dweight);
        if (status != TG_OK)
            return status;
        g.dweight = *dweight;
    }
    group_kernel<T>
        <<<dim3((unsigned)ceil_div(a.n, COLUMN_THREADS), (unsigned)min_of(a.groups, MOST_GROUPS)),
           COLUMN_THREADS, 0, call.stream>>>(g);
    return TG_OK;
}

template <class T, bool GATED>
static tg_status run(const cuda_call &call, factor_args a, const tg_rms_norm_backward_args *args)
{
    typedef typename element<T>::type type;
    part_args<1, 0> sums = {};
    float *parts;
    tg_status status =
        launch_factors<T, GATED>(call, a, args->dweight || args->dscale || args->dshift);
    parts = a.partial;
    sums.count = a.units;
    if (status == TG_OK && !GATED && a.partial) {
        status = finish_groups<type>(call, a, args, &parts);
        sums.count = a.groups;
    }
    if (status != TG_OK || !args->dweight)
        return status;
    sums.columns = parts;
    sums.n = a.n;
    sums.accumulate = (int)args->accumulate;
    sums.out[0] = vector_of(args->dweight);
    sum_parts<T>(call, sums);
    return TG_OK;
}

tg_status rms_norm_backward_with(tg_ctx *ctx, const tg_rms_norm_backward_args *args)
{
    const char *const op = "rms_norm_backward";
    cuda_call call;
    factor_args a = {};
    tg_status status = begin_rows(&call, ctx, op, args->x);
    if (status != TG_OK)
        return status;
    a.dy = span_of(args->dy);
    a.x = span_of(args->x);
    a.gate = span_of(args->gate);
    a.dx = span_of(args->dx);
    a.dgate = span_of(args->dgate);
    a.scale = span_of(args->scale);
    a.weight = vector_of(args->weight);
    a.rstd = (const float *)data_of(args->rstd);
    a.groups = args->scale ? rows_of(args->scale) : 1;
    a.height = a.groups > 0 ? rows_of(args->x) / a.groups : 0;
    a.n = (int)width_of(args->x);
    a.scale_f32 = args->scale && tg_type_of(args->scale) == TG_F32;
    a.offset = args->weight ? (float)args->offset : 0;
    a.share = 1 / (float)a.n;
    const tg_tensor *const tensors[] = {args->x,     args->dy,     args->gate, args->dx,
                                        args->dgate, args->weight, args->scale};
    if (a.n > 0)
        by_layout(tensors, [&](auto e) {
            using T = decltype(e);
            status = args->gate ? run<T, true>(call, a, args) : run<T, false>(call, a, args);
        });
    return cuda_end(&call, status);
}
