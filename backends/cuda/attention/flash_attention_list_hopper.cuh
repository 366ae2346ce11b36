/* flash_attention_list_hopper.cuh - jobs of the kernels for Hopper: tiles of rows, and what they
 * see.
 *
 * A job is a tile of rows of one head. Blocks take jobs by a ticket, in this order: the longest
 * sequences first; of each, some heads at a time, so that what they read stays in L2; of these, the
 * longest jobs first, those of the same rows of all of them side by side. So at the end there are
 * short jobs left. Where rows are tiles of keys, whose jobs wait for each other's turn, short
 * sequences of about one length go side by side as heads do. Where rows are packed, only the device
 * knows the sequences: a kernel lists their tiles before. */
#ifndef CUDA_FLASH_ATTENTION_LIST_HOPPER_CUH
#define CUDA_FLASH_ATTENTION_LIST_HOPPER_CUH

#include "flash_attention_hopper.cuh"
#include "flash_attention_sequences.cuh"
#include "rows/tanh.cuh"

/* A tile of the list, of a sequence alone, or of one among others. */
struct alignas(16) flash_entry {
    flash_sequence of;
    int first, tiles; /* of a sequence alone: its first tile in the list; how many it has */
    int place;        /* its first tile of queries among all of a head */
    int rank;         /* of one among others: the tile's, the longest is 0; -1: it is alone */
};

/* A tile of rows of one head, and the tiles of columns that some of them see. */
struct alignas(16) flash_job {
    flash_sequence of;
    int head, row, first, steps; /* steps < 0: there is no job any more */
    int place;
};

struct flash_jobs {
    flash_entry *list; /* in the workspace, as all of these */
    int *order;        /* numbers of sequences, the longest first */
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
    int heads = a.heads * (p.bounds ? 1 : p.batches), tiles = a.tiles, local = index, rank = -1;
    if (index >= heads * (p.bounds ? *a.listed : tiles)) {
        j.steps = -1;
        return j;
    }
    if (p.bounds) {
        const flash_entry e = a.list[index / heads];
        tiles = e.tiles;
        local = index - heads * e.first;
        rank = e.rank;
        j.of = e.of;
        j.place = e.place;
    }
    if (rank >= 0) {
        j.head = index % heads;
    } else {
        const int together = flash_heads_together(heads, tiles, a.processors);
        const int set = local / (together * tiles), at = local % (together * tiles);
        const int width = min(together, heads - set * together);
        rank = at / width;
        j.head = set * together + at % width;
    }
    if (!p.bounds) {
        j.of = flash_sequence_at(p, j.head / a.heads);
        j.place = 0;
        j.head %= a.heads;
    }
    j.row = (C::OF_KEYS ? rank : tiles - 1 - rank) * C::ROWS;
    flash_see<C>(j, j.row, min(j.row + C::ROWS, C::OF_KEYS ? j.of.keys : j.of.queries) - 1);
    return j;
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

#endif
