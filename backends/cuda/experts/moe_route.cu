/* moe_route.cu - a counting sort in three kernels. Each warp has STRETCH slots in a row: the first
 * kernel counts the experts of each stretch; the second makes of these counts how many come before
 * each stretch; in the third each warp goes through its stretch again and puts each slot behind
 * those before it. */
#include "moe_route.cuh"

enum {
    STRETCH = 256,     /* slots of a warp */
    MOST_WARPS = 4,    /* of a block */
    COUNTERS = 12288,  /* of a block, in shared memory */
    SCAN_THREADS = 256 /* of the blocks that add up */
};

static int64_t stretches_of(int64_t slots)
{
    return ceil_div(slots, STRETCH);
}

size_t cuda_route_bytes(int64_t slots, int64_t experts)
{
    return (size_t)((stretches_of(slots) + 1) * experts) * sizeof(int);
}

__device__ __forceinline__ int stretch_of_warp()
{
    return (int)(blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32);
}

/* The slots' experts, `experts` for none, 32 at a time: each(slot, expert), in order. */
template <class EACH>
__device__ __forceinline__ void walk_stretch(const route_problem &p, const index_range &range,
                                             bool tell, const EACH &each)
{
    const int64_t first = (int64_t)stretch_of_warp() * STRETCH;
    for (int i = (int)threadIdx.x % 32; i < STRETCH; i += 32) {
        const int64_t at = first + i;
        int e = p.experts;
        if (at < p.slots && range.holds(at, p.index[at], tell))
            e = (int)p.index[at];
        each(at, e);
    }
}

__global__ void route_count(const route_problem p, int *counts, int stretches,
                            const index_range range)
{
    extern __shared__ int counters[];
    int *const own = counters + threadIdx.x / 32 * p.experts;
    const int stretch = stretch_of_warp(), lane = (int)threadIdx.x % 32;
    for (int e = lane; e < p.experts; e += 32)
        own[e] = 0;
    __syncwarp();
    walk_stretch(p, range, true, [&](int64_t, int e) {
        if (e < p.experts)
            atomicAdd(&own[e], 1);
    });
    __syncwarp();
    for (int e = lane; stretch < stretches && e < p.experts; e += 32)
        counts[(int64_t)stretch * p.experts + e] = own[e];
}

/* The sum of v over the threads before this one, and in *all over all. */
__device__ __forceinline__ int before_in_block(int v, int *all)
{
    __shared__ int sums[SCAN_THREADS / 32];
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    int sum = v, before = 0;
    for (int i = 1; i < 32; i *= 2) {
        const int other = __shfl_up_sync(~0u, sum, i);
        sum += lane >= i ? other : 0;
    }
    if (lane == 31)
        sums[warp] = sum;
    __syncthreads();
    *all = 0;
    for (int i = 0; i < (int)blockDim.x / 32; i++) {
        before += i < warp ? sums[i] : 0;
        *all += sums[i];
    }
    __syncthreads();
    return before + sum - v;
}

/* A block for each expert. */
__global__ void __launch_bounds__(SCAN_THREADS)
    route_add(int *counts, int *totals, int stretches, int experts)
{
    int so_far = 0;
    for (int first = 0; first < stretches; first += SCAN_THREADS) {
        const int s = first + (int)threadIdx.x;
        int *const own = counts + (int64_t)s * experts + blockIdx.x;
        const int count = s < stretches ? *own : 0;
        int all;
        const int before = before_in_block(count, &all);
        if (s < stretches)
            *own = so_far + before;
        so_far += all;
    }
    if (threadIdx.x == 0)
        totals[blockIdx.x] = so_far;
}

/* One block: where each expert begins. */
__global__ void __launch_bounds__(SCAN_THREADS)
    route_offsets(const route_problem p, const int *totals)
{
    int64_t so_far = 0;
    for (int first = 0; first < p.experts; first += SCAN_THREADS) {
        const int e = first + (int)threadIdx.x;
        int all;
        const int own = e < p.experts ? (int)min((int64_t)totals[e], p.capacity) : 0;
        const int before = before_in_block(own, &all);
        if (e < p.experts)
            p.offset[e] = so_far + before;
        so_far += all;
    }
    if (threadIdx.x == 0)
        p.offset[p.experts] = so_far;
}

/* Slots of the stretches before this warp's that have a place. */
__device__ __forceinline__ int64_t placed_before(const route_problem &p, const int *before)
{
    int64_t sum = 0;
    for (int e = (int)threadIdx.x % 32; e < p.experts; e += 32)
        sum += min((int64_t)before[e], p.capacity);
    for (int i = 16; i > 0; i /= 2)
        sum += __shfl_xor_sync(~0u, sum, i);
    return sum;
}

__global__ void route_place(const route_problem p, const int *counts, int stretches,
                            const index_range range)
{
    extern __shared__ int counters[];
    int *const own = counters + threadIdx.x / 32 * p.experts;
    const int stretch = stretch_of_warp(), lane = (int)threadIdx.x % 32;
    if (stretch >= stretches)
        return;
    const int *const before = counts + (int64_t)stretch * p.experts;
    for (int e = lane; e < p.experts; e += 32)
        own[e] = before[e];
    __syncwarp();
    const unsigned lower = (1u << lane) - 1;
    const int64_t placed = p.offset[p.experts];
    int64_t so_far = placed_before(p, before);
    walk_stretch(p, range, false, [&](int64_t at, int e) {
        const unsigned same = __match_any_sync(~0u, e);
        const int64_t rank = e < p.experts ? own[e] + __popc(same & lower) : 0;
        const bool has = e < p.experts && rank < p.capacity;
        const unsigned all = __ballot_sync(~0u, has);
        __syncwarp();
        if (e < p.experts && (same & lower) == 0)
            own[e] += __popc(same);
        __syncwarp();
        const int64_t rest = placed + at - (so_far + __popc(all & lower));
        so_far += __popc(all);
        if (at >= p.slots)
            return;
        if (p.slot)
            p.slot[has ? p.offset[e] + rank : rest] = has ? at : -1;
        if (p.place)
            p.place[at] = has ? p.offset[e] + rank : -1;
    });
}

tg_status cuda_route(const cuda_call &call, const route_problem &p, void *scratch)
{
    const int stretches = (int)stretches_of(p.slots);
    int *const totals = (int *)scratch, *const counts = totals + p.experts;
    const int warps = (int)min_of(MOST_WARPS, p.experts > 0 ? COUNTERS / p.experts : 1);
    if (warps < 1 || p.slots > INT32_MAX / 2)
        return TG_EUNSUPPORTED;
    const size_t shared = (size_t)(warps * p.experts) * sizeof(int);
    const unsigned grid = (unsigned)ceil_div(stretches, warps);
    const index_range range = range_of(call, "index", (int64_t)p.experts + 1);
    if (grid > 0)
        route_count<<<grid, 32 * warps, shared, call.stream>>>(p, counts, stretches, range);
    if (p.experts > 0)
        route_add<<<(unsigned)p.experts, SCAN_THREADS, 0, call.stream>>>(counts, totals, stretches,
                                                                         p.experts);
    route_offsets<<<1, SCAN_THREADS, 0, call.stream>>>(p, totals);
    if (grid > 0)
        route_place<<<grid, 32 * warps, shared, call.stream>>>(p, counts, stretches, range);
    return TG_OK;
}

CUDA_OPERATOR(moe_route, TG_TAKES_FLOATS);

tg_status cuda_moe_route(tg_ctx *ctx, const tg_moe_route_args *args)
{
    cuda_call call;
    route_problem p = {};
    p.index = (const int64_t *)data_of(args->index);
    p.slots = tg_numel(args->index);
    p.capacity = args->capacity ? args->capacity : INT64_MAX;
    p.slot = (int64_t *)data_of(args->slot);
    p.offset = (int64_t *)data_of(args->offset);
    p.place = (int64_t *)data_of(args->place);
    if (args->experts > COUNTERS)
        return TG_EUNSUPPORTED;
    p.experts = (int)args->experts;
    tg_status status = cuda_begin(&call, ctx, "moe_route", args->offset);
    if (status != TG_OK)
        return status;
    void *const scratch =
        cuda_host->device_workspace(ctx, cuda_route_bytes(p.slots, args->experts));
    status = scratch ? cuda_route(call, p, scratch) : TG_ENOMEM;
    return cuda_end(&call, status);
}
