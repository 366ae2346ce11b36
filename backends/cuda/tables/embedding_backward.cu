/* embedding_backward.cu - the rows of dy are added to the rows of dweight in their order.
 *
 * The kernels count how often each index comes, give each its part of a list, and fill the list
 * with positions; both are done with integer atomics, in any order. Then blocks bring the positions
 * of each index into order and add up, while others write zeros where no index points. So each sum
 * has one order, and dweight is written once. */
#include "rows/indices.cuh"

enum { EMBEDDING_THREADS = 256 };

struct sum_args {
    row_span dy, dweight;
    const int64_t *indices;
    int *count, *first, *filled; /* of each index */
    /* positions, index by index; how many places of the list are taken */
    int *list, *listed;
    int *used;              /* indices that come often from the front, others from the end */
    int *often, *seldom;    /* how many of either there are */
    int64_t rows, n, table; /* of dy; width; rows of dweight */
    int accumulate;
};

__global__ void count_kernel(const sum_args a, const index_range range)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.rows; i += step)
        if (range.holds(i, a.indices[i], true))
            atomicAdd(&a.count[a.indices[i]], 1);
}

enum {
    SELDOM = 32 /* times that an index may come and not be among the first that are added up */
};

/* first[v]: where the positions of v begin in the list. */
__global__ void place_kernel(const sum_args a)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    const unsigned all = 0xffffffffu, lane = threadIdx.x % 32;
    let_the_next_come();
    wait_for_the_kernel_before();
    for (int64_t from = (int64_t)blockIdx.x * blockDim.x + threadIdx.x - lane; from < a.table;
         from += step) {
        const int64_t v = from + lane;
        const int count = v < a.table ? a.count[v] : 0;
        const int seldom = (int)(count > 0 && count <= SELDOM);
        int end = count, start = 0, place = 0;
#pragma unroll
        for (int o = 1; o < 32; o *= 2) {
            const int other = __shfl_up_sync(all, end, o);
            end += lane >= o ? other : 0;
        }
        const unsigned votes = __ballot_sync(all, seldom);
        if (lane == 31) { /* one addition for the warp: all go to one address */
            start = end ? atomicAdd(a.listed, end) : 0;
            place = votes ? atomicAdd(a.seldom, __popc(votes)) : 0;
        }
        start = __shfl_sync(all, start, 31) + end - count;
        place = __shfl_sync(all, place, 31) + __popc(votes & ((1u << lane) - 1));
        if (count > 0)
            a.first[v] = start;
        if (seldom)
            a.used[a.table - 1 - place] = (int)v;
        else if (count > 0)
            a.used[atomicAdd(a.often, 1)] = (int)v;
    }
}

__global__ void fill_kernel(const sum_args a, const index_range range)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    let_the_next_come();
    wait_for_the_kernel_before();
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.rows; i += step) {
        const int64_t v = a.indices[i];
        if (range.holds(i, v, false))
            a.list[a.first[v] + atomicAdd(&a.filled[v], 1)] = (int)i;
    }
}

enum { WINDOW = 1024 /* positions that a block brings into order at once */ };

/* Positions of index v in order, from its list. */
__device__ __forceinline__ static void sort_list(const int *list, int count, int *raw, int *sorted)
{
    for (int i = threadIdx.x; i < count; i += blockDim.x)
        raw[i] = list[i];
    __syncthreads();
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
        int before = 0;
        for (int k = 0; k < count; k++)
            before += raw[k] < raw[i];
        sorted[before] = raw[i];
    }
    __syncthreads();
}

/* The same where the list is long: those among positions [from, from + WINDOW) of all indices. */
__device__ __forceinline__ static int scan_window(const sum_args &a, int64_t v, int64_t from,
                                                  int *warps, int *sorted)
{
    int found = 0;
    for (int part = 0; part < WINDOW; part += EMBEDDING_THREADS) {
        const int64_t i = from + part + threadIdx.x;
        const int mine = i < a.rows && a.indices[i] == v;
        const unsigned votes = __ballot_sync(0xffffffffu, mine);
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        if (lane == 0)
            warps[warp] = __popc(votes);
        __syncthreads();
        int before = found + __popc(votes & ((1u << lane) - 1));
        for (int w = 0; w < EMBEDDING_THREADS / 32; w++) {
            before += w < warp ? warps[w] : 0;
            found += warps[w];
        }
        if (mine)
            sorted[before] = (int)i;
        __syncthreads();
    }
    return found;
}

template <class T>
__device__ __forceinline__ static void add_rows(const sum_args &a, const int *sorted, int count,
                                                int64_t j, float (&sum)[V<T>])
{
#pragma unroll 8
    for (int i = 0; i < count; i++) {
        float g[V<T>];
        widen<T>(load(a.dy.row<T>(sorted[i]) + j, a.n - j), g);
#pragma unroll
        for (int k = 0; k < V<T>; k++)
            sum[k] += g[k];
    }
}

/* The sum as W, dweight's type. */
template <class T, class W>
__device__ __forceinline__ static void store_sum(W *to, int64_t j, int64_t n,
                                                 const float (&sum)[V<T>])
{
    if constexpr (sizeof(W) == sizeof(T)) {
        store((T *)to + j, n - j, narrow<T>(sum));
    } else {
#pragma unroll
        for (int i = 0; i < V<T>; i += V<float>) {
            const float part[V<float>] = {sum[i], sum[i + 1], sum[i + 2], sum[i + 3]};
            store(to + j + i, n - j - i, narrow<W>(part));
        }
    }
}

/* Number k of the indices that come, those first that come often: a block has one row of dweight,
 * or a slab of it. T: of dy; W: of dweight, T or f32. */
template <class T, class W>
__device__ __forceinline__ static void sum_used(const sum_args &a, int64_t k, int64_t j)
{
    __shared__ int raw[WINDOW], sorted[WINDOW];
    const int often = *a.often;
    if (k >= often + *a.seldom)
        return;
    const int v = a.used[k < often ? k : a.table - 1 - (k - often)], count = a.count[v];
    W *const to = a.dweight.row<W>(v);
    const vector_span old = {(char *)to, sizeof(W) == 4};
    float sum[V<T>] = {};
    if (a.accumulate && j < a.n)
        load_vector<T>(old, j, a.n - j, sum);
    if (count <= WINDOW) {
        sort_list(a.list + a.first[v], count, raw, sorted);
        if (j < a.n)
            add_rows<T>(a, sorted, count, j, sum);
    }
    for (int64_t from = 0; count > WINDOW && from < a.rows; from += WINDOW) {
        const int found = scan_window(a, v, from, raw, sorted);
        if (j < a.n)
            add_rows<T>(a, sorted, found, j, sum);
        __syncthreads(); /* the next positions come to the same place */
    }
    if (j < a.n)
        store_sum<T, W>(to, j, a.n, sum);
}

enum { ZERO_ROWS = EMBEDDING_THREADS / 32 /* rows of dweight that a block looks at: one a warp */ };

template <class W>
__device__ __forceinline__ static void write_zeros(const sum_args &a, int64_t block)
{
    const int64_t v = block * ZERO_ROWS + threadIdx.x / 32;
    const uint4 zeros = make_uint4(0, 0, 0, 0);
    if (v >= a.table || a.count[v] > 0)
        return;
    for (int64_t j = threadIdx.x % 32 * V<W>; j < a.n; j += 32 * V<W>)
        store(a.dweight.row<W>(v) + j, a.n - j, zeros);
}

/* Blocks that add up, which wait for memory most of the time, are dealt out evenly among those that
 * write zeros. */
template <class T, class W>
__global__ void __launch_bounds__(EMBEDDING_THREADS)
    sum_kernel(const sum_args a, int64_t sum_blocks, int64_t slabs)
{
    const int64_t sums_before = blockIdx.x * sum_blocks / gridDim.x,
                  sums_then = (blockIdx.x + 1) * sum_blocks / gridDim.x;
    let_the_next_come();
    wait_for_the_kernel_before();
    if (sums_then > sums_before)
        sum_used<T, W>(a, sums_before / slabs,
                       (sums_before % slabs * EMBEDDING_THREADS + threadIdx.x) * V<T>);
    else
        write_zeros<W>(a, blockIdx.x - sums_before);
}

template <class T, class W> static tg_status launch_sum(const cuda_call &call, const sum_args &a)
{
    const int64_t slabs = ceil_div(a.n, EMBEDDING_THREADS * V<T>),
                  sums = min_of(a.rows, a.table) * slabs,
                  zeros = a.accumulate ? 0 : ceil_div(a.table, ZERO_ROWS);
    if (sums + zeros > INT32_MAX)
        return cuda_host->fail(TG_EUNSUPPORTED, "%s: %lld blocks of a kernel, expected at most %d",
                               call.op, (long long)(sums + zeros), INT32_MAX);
    if (sums + zeros > 0)
        launch_behind(call, sum_kernel<T, W>, (unsigned)(sums + zeros), EMBEDDING_THREADS, a, sums,
                      slabs);
    return TG_OK;
}

static tg_status sum_rows(const cuda_call &call, const tg_embedding_backward_args *args)
{
    sum_args a;
    a.dy = span_of(args->dy);
    a.dweight = span_of(args->dweight);
    a.indices = (const int64_t *)data_of(args->indices);
    a.rows = rows_of(args->dy);
    a.n = width_of(args->dweight);
    a.table = args->dweight->shape[0];
    a.accumulate = (int)args->accumulate;
    if (a.rows > INT32_MAX)
        return cuda_host->fail(TG_EUNSUPPORTED, "%s: %lld indices, expected at most %d", call.op,
                               (long long)a.rows, INT32_MAX);
    if (a.table == 0 || a.n == 0)
        return TG_OK;
    const size_t counters = (size_t)(2 * a.table + 3);
    int *memory = (int *)cuda_host->device_workspace(
        call.ctx, (counters + (size_t)(2 * a.table + a.rows)) * sizeof(int));
    if (!memory)
        return TG_ENOMEM;
    a.count = memory;
    a.filled = a.count + a.table;
    a.listed = a.filled + a.table;
    a.often = a.listed + 1;
    a.seldom = a.often + 1;
    a.first = a.seldom + 1;
    a.used = a.first + a.table;
    a.list = a.used + a.table;
    const index_range range = range_of(call, "indices", a.table);
    const unsigned over_rows = (unsigned)ceil_div(min_of(a.rows, 1 << 20), EMBEDDING_THREADS),
                   over_table = (unsigned)ceil_div(min_of(a.table, 1 << 20), EMBEDDING_THREADS);
    cudaMemsetAsync(memory, 0, counters * sizeof(int), call.stream);
    if (a.rows > 0) {
        count_kernel<<<over_rows, EMBEDDING_THREADS, 0, call.stream>>>(a, range);
        launch_behind(call, place_kernel, over_table, EMBEDDING_THREADS, a);
        launch_behind(call, fill_kernel, over_rows, EMBEDDING_THREADS, a, range);
    }
    const tg_tensor *const tensors[] = {args->dy, args->dweight};
    tg_status status = TG_OK;
    by_layout(tensors, [&](auto e) {
        using T = decltype(e);
        status = tg_type_of(args->dweight) == TG_F32
                     ? launch_sum<T, typename element<T>::f32>(call, a)
                     : launch_sum<T, T>(call, a);
    });
    return status;
}

CUDA_OPERATOR(embedding_backward, TG_TAKES_FLOATS);

tg_status cuda_embedding_backward(tg_ctx *ctx, const tg_embedding_backward_args *args)
{
    cuda_call call;
    tg_status status = cuda_begin(&call, ctx, "embedding_backward", args->dweight);
    if (status != TG_OK)
        return status;
    status = sum_rows(call, args);
    return cuda_end(&call, status);
}
