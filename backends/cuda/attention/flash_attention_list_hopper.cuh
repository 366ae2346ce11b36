/* flash_attention_list_hopper.cuh - jobs of the kernels for Hopper: tiles of rows, and what they
 * see.
 *
 * A job is a tile of rows of one head. Blocks take jobs by a ticket, in this order: sequence by
 * sequence, those with the longest jobs first; of each, some heads at a time, so that what they
 * read stays in L2; of these, the longest jobs first, those of the same rows of all of them side by
 * side. So at the end there are short jobs left. Where rows are packed, only the device knows the
 * sequences: a kernel lists their tiles before. */
#ifndef CUDA_FLASH_ATTENTION_LIST_HOPPER_CUH
#define CUDA_FLASH_ATTENTION_LIST_HOPPER_CUH

#include "flash_attention_hopper.cuh"
#include "flash_attention_sequences.cuh"
#include "rows/tanh.cuh"

/* A sequence, as each of its tiles in the list has it. */
struct alignas(16) flash_entry {
    flash_sequence of;
    int first, tiles; /* of the list: its first tile, and how many it has */
    int place;        /* its first tile of queries among all of a head */
};

/* A tile of rows of one head, and the tiles of columns that some of them see. */
struct alignas(16) flash_job {
    flash_sequence of;
    int head, row, first, steps; /* steps < 0: there is no job any more */
    int place;
};

struct flash_jobs {
    flash_entry *list; /* in the workspace, as all of these */
    int *listed;       /* tiles of the list */
    unsigned *ticket;
    int tiles; /* of a head; of a list as many as there can be */
    int heads; /* of a batch, of queries or of keys */
    int together, processors;
};

/* Heads at a time: enough jobs for all processors four times, and sets of about as many. */
static inline __host__ __device__ int flash_heads_together(int heads, int tiles, int processors)
{
    const int least = (4 * processors + tiles - 1) / tiles, sets = max(1, heads / least);
    return (heads + sets - 1) / sets;
}

/* Of columns, those that rows from `row` to `last` see: C::OF_KEYS: rows are keys. */
template <class C> __device__ __forceinline__ void flash_see(flash_job &j, int row, int last)
{
    const flash_sequence &s = j.of;
    const int begin = max(0, row + (C::OF_KEYS ? 1 - s.end : s.begin));
    const int end = min(C::OF_KEYS ? s.queries : s.keys, last + (C::OF_KEYS ? 1 - s.begin : s.end));
    j.first = begin / C::COLUMNS;
    j.steps = end > begin ? (end + C::COLUMNS - 1) / C::COLUMNS - j.first : 0;
}

template <class C>
__device__ __forceinline__ flash_job flash_job_at(const flash_problem &p, const flash_jobs &a,
                                                  int index)
{
    flash_job j;
    int heads = a.heads * (p.bounds ? 1 : p.batches), tiles = a.tiles, local = index;
    if (index >= heads * (p.bounds ? *a.listed : tiles)) {
        j.steps = -1;
        return j;
    }
    if (p.bounds) {
        const flash_entry e = a.list[index / heads];
        tiles = e.tiles;
        local = index - heads * e.first;
        j.of = e.of;
        j.place = e.place;
    }
    const int together = flash_heads_together(heads, tiles, a.processors);
    const int set = local / (together * tiles), at = local % (together * tiles);
    const int width = min(together, heads - set * together), rank = at / width;
    j.head = set * together + at % width;
    if (!p.bounds) {
        j.of = flash_sequence_at(p, j.head / a.heads);
        j.place = 0;
        j.head %= a.heads;
    }
    j.row = (C::OF_KEYS ? rank : tiles - 1 - rank) * C::ROWS;
    flash_see<C>(j, j.row, min(j.row + C::ROWS, C::OF_KEYS ? j.of.keys : j.of.queries) - 1);
    return j;
}

/* ---- the list ---- */

enum { FLASH_LENGTHS = 256 };

/* Which lengths of jobs count as equal: those of an eighth of a power of 2. */
template <class C> __device__ __forceinline__ int flash_length(const flash_sequence &s)
{
    const int most = min(C::OF_KEYS ? s.queries : s.keys, s.end - s.begin + C::ROWS);
    const int bits = (int)(__float_as_uint((float)max(1, most)) >> 20) - (127 << 3);
    return FLASH_LENGTHS - 1 - min(bits, FLASH_LENGTHS - 1);
}

template <class C> __device__ __forceinline__ int flash_tiles_of(const flash_sequence &s)
{
    return ((C::OF_KEYS ? s.keys : s.queries) + C::ROWS - 1) / C::ROWS;
}

/* One block. Sequences of one length are in no fixed order, which changes no result. */
template <class C>
__global__ void __launch_bounds__(1024)
    flash_list_kernel(const __grid_constant__ flash_problem p, const flash_jobs a)
{
    __shared__ int from[FLASH_LENGTHS];
    const int thread = threadIdx.x, lane = lane_id();
    if (thread < FLASH_LENGTHS)
        from[thread] = 0;
    __syncthreads();
    for (int i = thread; i < p.sequences; i += 1024) {
        const flash_sequence s = flash_sequence_at(p, i);
        atomicAdd(&from[flash_length<C>(s)], flash_tiles_of<C>(s));
    }
    __syncthreads();
    if (thread < 32) { /* numbers of tiles become places in the list */
        constexpr int EACH = FLASH_LENGTHS / 32;
        int own = 0;
        for (int i = 0; i < EACH; i++)
            own += from[lane * EACH + i];
        int all = own;
        for (int step = 1; step < 32; step *= 2) {
            const int below = __shfl_up_sync(0xffffffff, all, step);
            all += lane >= step ? below : 0;
        }
        if (lane == 31)
            *a.listed = all;
        int at = all - own;
        for (int i = 0; i < EACH; i++) {
            const int count = from[lane * EACH + i];
            from[lane * EACH + i] = at;
            at += count;
        }
    }
    if (thread == 0)
        *a.ticket = 0;
    __syncthreads();
    for (int i = thread / 32; i < p.sequences; i += 32) {
        flash_entry e;
        e.of = flash_sequence_at(p, i);
        e.tiles = flash_tiles_of<C>(e.of);
        e.place = e.of.query / C::QUERIES + i;
        if (lane == 0)
            e.first = atomicAdd(&from[flash_length<C>(e.of)], e.tiles);
        e.first = __shfl_sync(0xffffffff, lane == 0 ? e.first : 0, 0);
        for (int tile = lane; tile < e.tiles; tile += 32)
            a.list[e.first + tile] = e;
    }
}

/* ---- what no row of a sequence sees, or is ---- */

__device__ __forceinline__ void store_zeros(uint32_t to)
{
    asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(to), "r"(0) : "memory");
}

/* Rows of a tile outside of `from` to `to` become 0, by `threads` threads, which wait for each
 * other at a named barrier: a product of 0 and a NaN that lies there would be NaN. */
template <int PANELS, int ROWS>
__device__ __forceinline__ void clear_outside(uint32_t tile, int from, int to, int name,
                                              int threads)
{
    for (int i = threadIdx.x; i < ROWS * PANELS * 8; i += threads) {
        const int row = i / 8 % ROWS;
        if (row < from || row >= to)
            store_zeros(tile + i * 16);
    }
    fence_shared();
    named_barrier(name, threads);
}

/* Scores of products become hyperbolic tangents. */
template <int N> __device__ __forceinline__ void flash_cap(float (&s)[N][4], float to_cap)
{
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            s[n][i] = tanh_of(s[n][i] * to_cap);
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
    return ceil_div(16 + (p.bounds ? a->tiles * (int64_t)sizeof(flash_entry) : 0), 256) * 256;
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
