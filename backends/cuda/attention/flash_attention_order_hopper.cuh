/* flash_attention_order_hopper.cuh - the order of jobs on Hopper where rows are packed: a kernel
 * that lists the tiles of their sequences, and what the host does before it. */
#ifndef CUDA_FLASH_ATTENTION_ORDER_HOPPER_CUH
#define CUDA_FLASH_ATTENTION_ORDER_HOPPER_CUH

#include "flash_attention_list_hopper.cuh"

enum { FLASH_LENGTHS = 256 };

/* Which lengths of sequences count as equal: those of an eighth of a power of 2. */
template <class C> __device__ __forceinline__ int flash_length(const flash_sequence &s)
{
    const int most = max(1, C::OF_KEYS ? s.queries : s.keys);
    const int bits = (int)(__float_as_uint((float)most) >> 20) - (127 << 3);
    return FLASH_LENGTHS - 1 - min(bits, FLASH_LENGTHS - 1);
}

template <class C> __device__ __forceinline__ int flash_tiles_of(const flash_sequence &s)
{
    return ((C::OF_KEYS ? s.keys : s.queries) + C::ROWS - 1) / C::ROWS;
}

/* How many sequences of a length go side by side, 32 at most: where jobs add to rows in turn, and
 * all heads of one sequence are too few for jobs of the same rank to keep the card busy. */
template <class C>
__device__ __forceinline__ int flash_sequences_together(const flash_jobs &a, int length)
{
    const int bits = FLASH_LENGTHS - 1 - length + (127 << 3);
    const int rows = (int)__uint_as_float((unsigned)bits << 20);
    const int tiles = (rows + C::ROWS - 1) / C::ROWS;
    const int least = (4 * a.processors + tiles - 1) / tiles;
    return !C::OF_KEYS || tiles == 1 ? 1 : min(32, (least + a.heads - 1) / a.heads);
}

/* A warp lists the tiles of `width` sequences, from a.order[from] on. `at`: the next free place of
 * those of their length. */
template <class C>
__device__ __forceinline__ void flash_list_group(const flash_problem &p, const flash_jobs &a,
                                                 int from, int width, int *at)
{
    const int lane = lane_id(), i = a.order[from + (lane < width ? lane : 0)];
    flash_entry e;
    e.of = flash_sequence_at(p, i);
    e.tiles = flash_tiles_of<C>(e.of);
    e.place = e.of.query / C::QUERIES + i;
    const int own = lane < width ? e.tiles : 0;
    const int all = __reduce_add_sync(0xffffffff, own), most = __reduce_max_sync(0xffffffff, own);
    e.first = __shfl_sync(0xffffffff, lane == 0 ? atomicAdd(at, all) : 0, 0);
    if (width == 1) {
        e.rank = -1;
        for (int tile = lane; tile < e.tiles; tile += 32)
            a.list[e.first + tile] = e;
        return;
    }
    int place = e.first;
    for (e.rank = 0; e.rank < most; e.rank++) {
        const unsigned there = __ballot_sync(0xffffffff, e.rank < own);
        if (e.rank < own)
            a.list[place + __popc(there & ((1u << lane) - 1))] = e;
        place += __popc(there);
    }
}

/* The sums of the counts before each, by a warp; returns the sum of all. */
__device__ __forceinline__ int flash_sums_before(int (&counts)[FLASH_LENGTHS])
{
    constexpr int EACH = FLASH_LENGTHS / 32;
    const int lane = lane_id();
    int own = 0;
    for (int i = 0; i < EACH; i++)
        own += counts[lane * EACH + i];
    int all = own;
    for (int step = 1; step < 32; step *= 2) {
        const int below = __shfl_up_sync(0xffffffff, all, step);
        all += lane >= step ? below : 0;
    }
    int at = all - own;
    for (int i = 0; i < EACH; i++) {
        const int count = counts[lane * EACH + i];
        counts[lane * EACH + i] = at;
        at += count;
    }
    return __shfl_sync(0xffffffff, all, 31);
}

/* One block. Sequences of one length are in no fixed order, which changes no result. */
template <class C>
__global__ void __launch_bounds__(1024)
    flash_list_kernel(const __grid_constant__ flash_problem p, const flash_jobs a)
{
    __shared__ int tiles[FLASH_LENGTHS], ends[FLASH_LENGTHS]; /* of lengths: places of the lists */
    const int thread = threadIdx.x, warp = thread / 32, lane = lane_id();
    if (thread < FLASH_LENGTHS)
        tiles[thread] = ends[thread] = 0;
    __syncthreads();
    for (int i = thread; i < p.sequences; i += 1024) {
        const flash_sequence s = flash_sequence_at(p, i);
        const int own = flash_tiles_of<C>(s);
        atomicAdd(&tiles[flash_length<C>(s)], own);
        if (own > 0)
            atomicAdd(&ends[flash_length<C>(s)], 1);
    }
    __syncthreads();
    if (warp == 0) {
        const int all = flash_sums_before(tiles);
        if (lane == 0) {
            *a.listed = all;
            *a.ticket = 0;
        }
    } else if (warp == 1) {
        flash_sums_before(ends);
    }
    __syncthreads();
    for (int i = thread; i < p.sequences; i += 1024) {
        const flash_sequence s = flash_sequence_at(p, i);
        if (flash_tiles_of<C>(s) > 0)
            a.order[atomicAdd(&ends[flash_length<C>(s)], 1)] = i;
    }
    __syncthreads();
    for (int base = 0; base < FLASH_LENGTHS; base += 32) {
        const int length = base + lane;
        unsigned left = __ballot_sync(0xffffffff, ends[length] > (length ? ends[length - 1] : 0));
        for (; left; left &= left - 1) {
            const int at = base + __ffs(left) - 1, first = at ? ends[at - 1] : 0;
            const int width = flash_sequences_together<C>(a, at);
            for (int i = first + (warp + at) % 32 * width; i < ends[at]; i += 32 * width)
                flash_list_group<C>(p, a, i, min(width, ends[at] - i), &tiles[at]);
        }
    }
}

/* ---- the host's side ---- */

/* Whether each batch is one sequence, whose query i sees all keys below i + p.end, and scores are
 * products times a factor. */
static inline bool flash_is_plain(const flash_problem &p)
{
    const int64_t all = (int64_t)p.queries + p.keys;
    return !p.bounds && p.left >= all && (p.right >= all || p.right == 0) && p.softcap == 0 &&
           !p.sinks.data;
}

/* Places in the workspace from `room` on, and what else there is to say of the jobs; returns their
 * bytes, a multiple of 256, so that what follows lies in whole lines of L2. */
template <class C>
static int64_t flash_lay_out_jobs(flash_jobs *a, const flash_problem &p, char *room, int processors)
{
    const bool alike = flash_is_plain(p) && p.end >= p.keys; /* all jobs are of one length */
    a->tiles = flash_tiles(p, C::OF_KEYS ? p.keys : p.queries, C::ROWS);
    a->heads = C::OF_KEYS ? p.key_heads : p.heads;
    a->processors = processors;
    a->together = alike ? (int)ceil_div(processors, a->tiles)
                        : flash_heads_together(p.batches * a->heads, a->tiles, processors);
    a->ticket = (unsigned *)room;
    a->listed = (int *)room + 1;
    a->list = (flash_entry *)(room + 16);
    a->order = (int *)(a->list + a->tiles);
    const int64_t list = (int64_t)a->tiles * sizeof(flash_entry) + p.sequences * sizeof(int);
    return ceil_div(16 + (p.bounds ? list : 0), 256) * 256;
}

static inline int64_t flash_most_jobs(const flash_problem &p, const flash_jobs &a)
{
    return (int64_t)a.tiles * a.heads * (p.bounds ? 1 : p.batches);
}

/* The ticket begins at 0, and the list is made. */
template <class C>
static void flash_list(const flash_problem &p, const flash_jobs &a, cudaStream_t stream)
{
    if (p.bounds)
        flash_list_kernel<C><<<1, 1024, 0, stream>>>(p, a);
    else
        cudaMemsetAsync(a.ticket, 0, sizeof(unsigned), stream);
}

#endif
