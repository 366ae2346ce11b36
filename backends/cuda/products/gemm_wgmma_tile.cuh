/* gemm_wgmma_tile.cuh - tiles of a product of 16-bit matrices on GPUs of compute capability 9.0:
 * how they come to shared memory, and are multiplied there.
 *
 * A block makes tiles of 128 x 256, one after the other: of its three groups of four warps one
 * thread of the first has tiles of both operands copied to shared memory, STAGES ahead; each other
 * group multiplies 64 rows of them and keeps its sums in registers. Two blocks, a cluster, work on
 * tiles below each other: each copies half of the tile of b for both. Sums along k go in one order,
 * so that there are the same bits each time. */
#ifndef CUDA_GEMM_WGMMA_TILE_CUH
#define CUDA_GEMM_WGMMA_TILE_CUH

#include "rows/hopper.cuh"

enum {
    TILE_M = 128,
    TILE_N = 256,
    TILE_K = 64,
    STAGES = 4,
    CLUSTER = 2, /* blocks, side by side along m */
    GROUP = 128, /* threads that multiply together */
    GROUPS = TILE_M / 64,
    PRODUCT_THREADS = GROUP * (1 + GROUPS),
    PAIR = CLUSTER * TILE_M,  /* rows of a cluster's tiles */
    SHARE = TILE_N / CLUSTER, /* columns of b that a block copies for all */
    LINE_BYTES = 128,         /* that copies swizzle: of a tile's contiguous dimension */
    BLOCK = 64 * LINE_BYTES,  /* 64 rows of 128 bytes */
    STAGED = 2 * BLOCK,       /* of a group's results on their way out */
    STAGE = (TILE_M + TILE_N) * TILE_K * 2,
    /* steps that the first group is ahead of the other one, so that only one of both at a time does
     * something else */
    LEAD = 1,
    IN_TURN = 1, /* the name of the barrier for that; the groups' own follow */
    PRODUCT_SHARED = STAGES * STAGE + GROUPS * STAGED + 1024 /* to begin at a multiple of 1024 */
};

/* c = a b. Tiles are counted in pairs along m. */
struct product {
    CUtensorMap a, b, c;
    int rows, columns; /* of pairs of tiles, of tiles */
    int steps;         /* along k */
    /* rows of pairs that are worked on at the same time, so that what they read stays in L2 */
    int together;
    const int *only; /* rows of pairs that are made: those whose number is not 0; NULL: all */
};

struct tile_place {
    int row, column;
};

/* The same in one of the products of a batch. */
struct batch_place {
    int row, column, matrix;
};

#if HAS_WGMMA

__device__ __forceinline__ tile_place place_of(const product &p, int tile)
{
    const int strip = p.together * p.columns, first = tile / strip * p.together;
    const int rows = min(p.together, p.rows - first), at = tile % strip;
    return {first + at % rows, at / rows};
}

/* For all threads of a block: whether there is nothing to do. */
__device__ __forceinline__ bool has_no_tiles(const product &p)
{
    int any = !p.only;
    for (int i = (int)threadIdx.x; p.only && i < p.rows; i += PRODUCT_THREADS)
        any |= p.only[i];
    return !__syncthreads_or(any);
}

/* each(place): the tiles of this block's cluster. */
template <class EACH> __device__ __forceinline__ void for_tiles(const product &p, const EACH &each)
{
    const int clusters = (int)gridDim.x / CLUSTER;
    for (int t = (int)blockIdx.x / CLUSTER; t < p.rows * p.columns; t += clusters) {
        const tile_place place = place_of(p, t);
        if (!p.only || p.only[place.row])
            each(place);
    }
}

/* The ring of STAGES. */
struct ring : stage_ring {
    __device__ __forceinline__ void step()
    {
        stage_ring::step(STAGES);
    }
};

struct product_memory {
    uint32_t full, empty; /* barriers of the stages */
    uint32_t tiles, results;
    __device__ __forceinline__ uint32_t a(int stage) const
    {
        return tiles + stage * STAGE;
    }
    __device__ __forceinline__ uint32_t b(int stage) const
    {
        return tiles + stage * STAGE + TILE_M * TILE_K * 2;
    }
};

/* A box of an operand, at x and y of what the place says; to all blocks of the cluster if
 * `shared`. */
__device__ __forceinline__ void load_box(bool shared, uint32_t to, const CUtensorMap *map, int x,
                                         int y, tile_place, uint32_t barrier)
{
    if (shared)
        load_tile_to((1 << CLUSTER) - 1, to, map, x, y, barrier);
    else
        load_tile(to, map, x, y, barrier);
}

__device__ __forceinline__ void load_box(bool shared, uint32_t to, const CUtensorMap *map, int x,
                                         int y, batch_place place, uint32_t barrier)
{
    if (shared)
        load_tile_to((1 << CLUSTER) - 1, to, map, x, y, place.matrix, barrier);
    else
        load_tile(to, map, x, y, place.matrix, barrier);
}

/* `LINES` rows of a or columns of b, from `line` on, of TILE_K elements along k. */
template <int ACROSS, int LINES, class PLACE>
__device__ __forceinline__ void load_lines(bool shared, uint32_t to, const CUtensorMap *map,
                                           int line, int k, PLACE place, uint32_t barrier)
{
    const int pieces = ACROSS ? LINES / 64 : 1;
#pragma unroll
    for (int i = 0; i < pieces; i++) {
        const int x = ACROSS ? line + 64 * i : k, y = ACROSS ? k : line;
        load_box(shared, to + i * BLOCK, map, x, y, place, barrier);
    }
}

/* What one thread of the block does: the copies. */
template <int A_ACROSS, int B_ACROSS, class PRODUCT>
__device__ __forceinline__ void copy_operands(const PRODUCT &p, const product_memory &m)
{
    const int block = cluster_rank();
    ring r = {0, 0};
    for_tiles(p, [&](auto place) {
        const int row = (place.row * CLUSTER + block) * TILE_M;
        const int column = place.column * TILE_N + block * SHARE;
        for (int k = 0; k < p.steps; k++) {
            const uint32_t full = m.full + 8 * r.stage;
            wait_barrier(m.empty + 8 * r.stage, r.phase ^ 1);
            arrive_and_expect(full, STAGE);
            load_lines<A_ACROSS, TILE_M>(false, m.a(r.stage), &p.a, row, k * TILE_K, place, full);
            load_lines<B_ACROSS, SHARE>(true, m.b(r.stage) + block * (SHARE * TILE_K * 2), &p.b,
                                        column, k * TILE_K, place, full);
            r.step();
        }
    });
}

/* This group is done with a stage, which both blocks write to. */
__device__ __forceinline__ void release(const product_memory &m, int stage)
{
    const int thread = (int)threadIdx.x % GROUP;
    if (thread < CLUSTER)
        arrive_at(m.empty + 8 * stage, thread);
}

/* d = 64 rows of a times 256 columns of b. meanwhile(k): what else is done while the products of
 * step k run. both: the other group multiplies as well. STORED: threads write to the stages, not
 * copies of tiles alone. */
template <class T, int A_ACROSS, int B_ACROSS, bool STORED = false, class MEANWHILE>
__device__ __forceinline__ void multiply_tile(float (&d)[128], const product_memory &m, int group,
                                              int steps, ring &r, const MEANWHILE &meanwhile,
                                              bool both = true)
{
    /* bytes, in units of 16, from 16 elements along k to the next */
    const int a_step = A_ACROSS ? 16 * LINE_BYTES / 16 : 2, b_step = B_ACROSS ? LINE_BYTES : 2;
    /* with fewer steps the first group could be a tile ahead, and arrive twice before the other one
     * comes */
    const bool in_turn = both && steps >= STAGES;
    int before = 0;
    if (in_turn && group > 0)
        named_barrier(IN_TURN, GROUPS * GROUP);
    for (int k = 0; k < steps; k++) {
        wait_barrier(m.full + 8 * r.stage, r.phase);
        const uint64_t a = descriptor_of(m.a(r.stage) + group * BLOCK, BLOCK);
        const uint64_t b = descriptor_of(m.b(r.stage), BLOCK);
        if (STORED)
            fence_shared();
        begin_products();
#pragma unroll
        for (int i = 0; i < TILE_K / 16; i++)
            multiply<T, A_ACROSS, B_ACROSS>(d, a + i * a_step, b + i * b_step, k + i > 0);
        end_products();
        if (in_turn && group == 0 && k == LEAD)
            named_arrival(IN_TURN, GROUPS * GROUP);
        meanwhile(k);
        wait_for_products<1>(); /* those of the step before */
        if (k > 0)
            release(m, before);
        before = r.stage;
        r.step();
    }
    wait_for_products<0>();
#pragma unroll
    for (int i = 0; i < 128; i++)
        asm volatile("" : "+f"(d[i])::"memory"); /* not read earlier */
    release(m, before);
}

#endif
#endif
