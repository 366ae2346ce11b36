/* gemm_wgmma.cuh - products of 16-bit matrices on GPUs of compute capability 9.0, for kernels that do something with the result
 * before it leaves the multiprocessor.
 *
 * A block makes tiles of 128 x 256, one after the other: of its three groups of four warps one thread of the first has tiles of both
 * operands copied to shared memory, STAGES ahead; each other group multiplies 64 rows of them, keeps its sums in registers, and
 * hands them to RESULT before they are written. While one group does that, the other one multiplies. Two blocks, a cluster, work on
 * tiles below each other: each copies half of the tile of b for both. Sums along k go in one order, so that there are the same bits each time. */
#ifndef CUDA_GEMM_WGMMA_CUH
#define CUDA_GEMM_WGMMA_CUH

#include "hopper.cuh"
#include "tensor_map.h"

enum {
    TILE_M = 128,
    TILE_N = 256,
    TILE_K = 64,
    STAGES = 4,
    CLUSTER = 2, /* blocks, side by side along m */
    GROUP = 128, /* threads that multiply together */
    GROUPS = TILE_M / 64,
    PRODUCT_THREADS = GROUP * (1 + GROUPS),
    LINE_BYTES = 128,           /* that copies swizzle: of a tile's contiguous dimension */
    UNIT_LINES = 128,           /* rows of a, or columns of b, that are copied at once */
    UNIT = UNIT_LINES * TILE_K * 2,
    BLOCK = 64 * LINE_BYTES, /* 64 rows of 128 bytes */
    STAGED = 2 * BLOCK,      /* of a group's results on their way out */
    STAGE = UNIT * (1 + TILE_N / UNIT_LINES),
    PRODUCT_SHARED = STAGES * STAGE + GROUPS * STAGED + 1024 /* to begin at a multiple of 1024 */
};

/* c = a b. Tiles are counted in pairs along m. */
struct product {
    CUtensorMap a, b, c;
    int rows, columns; /* of pairs of tiles, of tiles */
    int steps;         /* along k */
    int together;      /* rows of pairs that are worked on at the same time, so that what they read stays in L2 */
    const int *only;   /* rows of pairs that are made: those whose number is not 0; NULL: all */
};

struct tile_place {
    int row, column;
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

/* The ring of stages: which comes next, and in which phase its barriers are. */
struct ring {
    int stage, phase;
    __device__ __forceinline__ void step()
    {
        phase ^= ++stage == STAGES;
        stage = stage == STAGES ? 0 : stage;
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
        return tiles + stage * STAGE + UNIT;
    }
};

/* UNIT_LINES lines, from `line` on, of TILE_K elements along k; to all blocks of the cluster if `shared`. */
template <int ACROSS>
__device__ __forceinline__ void load_unit(bool shared, uint32_t to, const CUtensorMap *map,
                                          int line, int k, uint32_t barrier)
{
    const int pieces = ACROSS ? UNIT_LINES / 64 : 1;
#pragma unroll
    for (int i = 0; i < pieces; i++) {
        const int x = ACROSS ? line + 64 * i : k, y = ACROSS ? k : line;
        if (shared)
            load_tile_to((1 << CLUSTER) - 1, to + i * BLOCK, map, x, y, barrier);
        else
            load_tile(to + i * BLOCK, map, x, y, barrier);
    }
}

/* What one thread of the block does: the copies. */
template <int A_ACROSS, int B_ACROSS>
__device__ __forceinline__ void copy_operands(const product &p, const product_memory &m)
{
    const int block = block_of_cluster();
    ring r = {0, 0};
    for_tiles(p, [&](tile_place place) {
        const int row = (place.row * CLUSTER + block) * TILE_M;
        const int column = place.column * TILE_N + block * UNIT_LINES;
        for (int k = 0; k < p.steps; k++) {
            const uint32_t full = m.full + 8 * r.stage;
            wait_barrier(m.empty + 8 * r.stage, r.phase ^ 1);
            arrive_and_expect(full, STAGE);
            load_unit<A_ACROSS>(false, m.a(r.stage), &p.a, row, k * TILE_K, full);
            load_unit<B_ACROSS>(true, m.b(r.stage) + block * UNIT, &p.b, column, k * TILE_K, full);
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

/* d = 64 rows of a times 256 columns of b. meanwhile(k): what else is done while the products of step k run. */
template <class T, int A_ACROSS, int B_ACROSS, class MEANWHILE>
__device__ __forceinline__ void multiply_tile(float (&d)[128], const product_memory &m, int group,
                                              int steps, ring &r, const MEANWHILE &meanwhile)
{
    /* bytes, in units of 16, from 16 elements along k to the next */
    const int a_step = A_ACROSS ? 16 * LINE_BYTES / 16 : 2, b_step = B_ACROSS ? LINE_BYTES : 2;
    int before = 0;
    for (int k = 0; k < steps; k++) {
        wait_barrier(m.full + 8 * r.stage, r.phase);
        const uint64_t a = descriptor_of(m.a(r.stage) + group * BLOCK, BLOCK);
        const uint64_t b = descriptor_of(m.b(r.stage), BLOCK);
        begin_products();
#pragma unroll
        for (int i = 0; i < TILE_K / 16; i++)
            multiply<T, A_ACROSS, B_ACROSS>(d, a + i * a_step, b + i * b_step, k + i > 0);
        end_products();
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

/* ---- results on their way out: through shared memory in parts of STAGED bytes, blocks of 64 rows and 128 bytes, swizzled as copies do
 * that. A thread has, of rows lane / 4 and 8 more of its warp's 16, two neighbours in every 8 columns. ---- */

/* Of C: columns of a part, and parts of a tile. */
template <class C> constexpr int PART_COLUMNS = STAGED / 64 / (int)sizeof(C);
template <class C> constexpr int PARTS = TILE_N / PART_COLUMNS<C>;

/* The thread's pairs of 16-bit elements of a part, in order. */
__device__ __forceinline__ void stage_part(const uint32_t *pairs, uint32_t to)
{
    const int lane = (int)threadIdx.x % 32, row = (int)threadIdx.x % GROUP / 32 * 16 + lane % 16;
    const uint32_t own = to + row * LINE_BYTES + (lane / 16 ^ row % 8) * 16;
#pragma unroll
    for (int j = 0; j < PART_COLUMNS<bf16>; j += 16) {
        const uint32_t *v = pairs + j / 4;
        store_matrices(j / 64 * BLOCK + (own ^ j / 8 % 8 * 16), v[0], v[1], v[2], v[3]);
    }
}

/* The same of f32. */
__device__ __forceinline__ void stage_part(const float *numbers, uint32_t to)
{
    const int lane = (int)threadIdx.x % 32, row = (int)threadIdx.x % GROUP / 32 * 16 + lane / 4;
    const uint32_t own = to + row * LINE_BYTES + (lane % 4 / 2 ^ row % 8) * 16 + lane % 2 * 8;
#pragma unroll
    for (int j = 0; j < PART_COLUMNS<float>; j += 8) {
        const float *v = numbers + j / 2;
        const uint32_t at = j / 32 * BLOCK + (own ^ j / 4 % 8 * 16);
        store_pair(at, v[0], v[1]);
        store_pair(at + 8 * LINE_BYTES, v[2], v[3]);
    }
}

/* Writes a part whose first element is at row, column; v: the thread's elements of it. */
template <class RESULT, class V>
__device__ __forceinline__ void write_part(const product &p, const V *v, int row, int column,
                                           uint32_t staged)
{
    typedef typename RESULT::type C;
    const int name = 1 + (int)threadIdx.x / GROUP, wide = LINE_BYTES / (int)sizeof(C);
    const bool first = threadIdx.x % GROUP == 0;
    if (first)
        wait_for_stores_to_read();
    named_barrier(name, GROUP);
    stage_part(v, staged);
    fence_shared();
    named_barrier(name, GROUP);
    if (!first)
        return;
#pragma unroll
    for (int i = 0; i < PART_COLUMNS<C> / wide; i++) {
        if (RESULT::ADDED)
            add_tile(&p.c, column + i * wide, row, staged + i * BLOCK);
        else
            store_tile(&p.c, column + i * wide, row, staged + i * BLOCK);
    }
    end_stores();
}

/* A tile's results of 16 bits, which are written while the next tile is multiplied. */
template <class RESULT> struct outgoing {
    uint32_t pairs[64];
    int row, column, waiting;

    __device__ __forceinline__ void write(const product &p, int part, uint32_t staged)
    {
        typedef typename RESULT::type C;
        if (waiting && part == 0)
            write_part<RESULT>(p, pairs, row, column, staged);
        else if (waiting && part == 1)
            write_part<RESULT>(p, pairs + 32, row, column + PART_COLUMNS<C>, staged);
    }
};

/* What a group does that multiplies. */
template <class T, int A_ACROSS, int B_ACROSS, class RESULT>
__device__ __forceinline__ void make_results(const product &p, const RESULT &result,
                                             const product_memory &m)
{
    typedef typename RESULT::type C;
    const int block = block_of_cluster(), group = (int)threadIdx.x / GROUP - 1;
    const int own = (int)threadIdx.x % GROUP / 32 * 16 + (int)threadIdx.x % 32 / 4;
    const uint32_t staged = m.results + group * STAGED;
    ring r = {0, 0};
    outgoing<RESULT> out;
    out.waiting = 0;
    for_tiles(p, [&](tile_place place) {
        const int row = (place.row * CLUSTER + block) * TILE_M + 64 * group;
        const int column = place.column * TILE_N;
        float d[128];
        const auto rows = result.begin(row + own);
        multiply_tile<T, A_ACROSS, B_ACROSS>(d, m, group, p.steps, r, [&](int k) {
            if (sizeof(C) == 2)
                out.write(p, k, staged);
        });
        if (sizeof(C) == 2 && p.steps == 1)
            out.write(p, 1, staged);
        if constexpr (sizeof(C) == 2) {
            out.row = row;
            out.column = column;
            out.waiting = result.finish(d, rows, row + own, place.column, out.pairs);
        } else {
            result.finish(d, rows);
#pragma unroll
            for (int i = 0; i < PARTS<C>; i++)
                write_part<RESULT>(p, d + 128 / PARTS<C> * i, row, column + i * PART_COLUMNS<C>,
                                   staged);
        }
    });
    for (int i = 0; i < PARTS<bf16>; i++)
        out.write(p, i, staged);
    if (threadIdx.x % GROUP == 0)
        wait_for_stores();
}
#endif

/* RESULT: begin(row) reads what is needed of two rows, `row` and 8 further. finish(d, that, row, tile's column, pairs) makes pairs of
 * RESULT::type, 16 bits, of the thread's numbers of these rows, and answers whether they are written; finish(d, that) changes f32, which are
 * added to what is there if RESULT::ADDED. */
template <class T, int A_ACROSS, int B_ACROSS, class RESULT>
__global__ void __launch_bounds__(PRODUCT_THREADS, 1)
    product_kernel(const __grid_constant__ product p, const RESULT result)
{
#if HAS_WGMMA
    extern __shared__ char memory[];
    __shared__ uint64_t full[STAGES], empty[STAGES];
    if (has_no_tiles(p))
        return;
    const uint32_t tiles = (shared_address(memory) + 1023) & ~1023u;
    const product_memory m = {shared_address(full), shared_address(empty), tiles,
                              tiles + STAGES * STAGE};
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            init_barrier(m.full + 8 * i, 1);
            init_barrier(m.empty + 8 * i, CLUSTER * GROUPS);
        }
        fence_barriers();
    }
    cluster_barrier();
    if (threadIdx.x < GROUP) {
        fewer_registers<40>();
        if (threadIdx.x == 0)
            copy_operands<A_ACROSS, B_ACROSS>(p, m);
    } else {
        more_registers<232>();
        make_results<T, A_ACROSS, B_ACROSS>(p, result, m);
    }
    cluster_barrier(); /* no block ends while the other one may write to it */
#else
    (void)p;
    (void)result;
#endif
}

/* ---- results ---- */

/* The product times a number, and each row times one of its own, where `factors` is given. */
template <class C, bool ADD> struct scaled_result {
    typedef C type;
    static constexpr bool ADDED = ADD;
    float alpha;
    const float *factors;
    int rows;

    __device__ __forceinline__ float2 begin(int row) const
    {
        return make_float2(factor(row), factor(row + 8));
    }

    __device__ __forceinline__ float factor(int row) const
    {
        return alpha * (factors && row < rows ? factors[row] : 1);
    }

    __device__ __forceinline__ bool finish(float (&d)[128], float2 f, int, int,
                                           uint32_t (&pairs)[64]) const
    {
        finish(d, f);
#pragma unroll
        for (int i = 0; i < 64; i++)
            pairs[i] = narrow_pair<C>(d[2 * i], d[2 * i + 1]);
        return true;
    }

    __device__ __forceinline__ void finish(float (&d)[128], float2 f) const
    {
#pragma unroll
        for (int i = 0; i < 128; i++)
            d[i] *= i & 2 ? f.y : f.x;
    }
};

/* ---- the host's side ---- */

/* A matrix of 16 bits that a product reads: `lines` are its rows where k is the contiguous dimension, else its columns. */
struct product_operand {
    const void *data;
    int64_t lines, k, stride; /* elements from one line, or k, to the next */
};

template <int ACROSS>
static bool map_operand(CUtensorMap *map, int type, const product_operand &o)
{
    return cuda_tensor_map(map, type, o.data, ACROSS ? o.k : o.lines, ACROSS ? o.lines : o.k,
                           2 * o.stride, ACROSS ? TILE_K : UNIT_LINES);
}

/* Blocks that the card runs at once; *known keeps the answer, 0 before. */
template <class KERNEL>
static int product_blocks(int *known, KERNEL kernel, const cudaLaunchConfig_t &config)
{
    int clusters = __atomic_load_n(known, __ATOMIC_RELAXED);
    if (clusters > 0)
        return CLUSTER * clusters;
    if (cudaOccupancyMaxActiveClusters(&clusters, kernel, &config) != cudaSuccess)
        clusters = 0;
    __atomic_store_n(known, clusters, __ATOMIC_RELAXED);
    return CLUSTER * clusters;
}

/* c of m x n numbers, `stride` apart, from a and b. Returns false, with nothing launched, if the card or the tensors are not such that
 * this can be done. */
template <class T, int A_ACROSS, int B_ACROSS, class RESULT>
static bool launch_product(const cuda_call &call, int type, const product_operand &a,
                           const product_operand &b, void *c, int64_t stride, const int *only,
                           const RESULT &result)
{
    typedef typename RESULT::type C;
    static int known;
    const auto kernel = product_kernel<T, A_ACROSS, B_ACROSS, RESULT>;
    const int c_type = sizeof(C) == 4 ? (int)TG_F32 : type;
    product p;
    if (call.capability != 90 || !map_operand<A_ACROSS>(&p.a, type, a) ||
        !map_operand<B_ACROSS>(&p.b, type, b) ||
        !cuda_tensor_map(&p.c, c_type, c, a.lines, b.lines, stride * (int)sizeof(C), 64))
        return false;
    p.rows = (int)ceil_div(a.lines, CLUSTER * TILE_M);
    p.columns = (int)ceil_div(b.lines, TILE_N);
    p.steps = (int)ceil_div(a.k, TILE_K);
    p.together = 8;
    p.only = only;
    cudaLaunchAttribute cluster;
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {CLUSTER, 1, 1};
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)call.processors / CLUSTER * CLUSTER);
    config.blockDim = dim3(PRODUCT_THREADS);
    config.dynamicSmemBytes = PRODUCT_SHARED;
    config.stream = call.stream;
    config.attrs = &cluster;
    config.numAttrs = 1;
    if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             PRODUCT_SHARED) != cudaSuccess)
        return false;
    const int64_t blocks = product_blocks(&known, kernel, config);
    if (blocks == 0)
        return false;
    config.gridDim = dim3((unsigned)min_of(blocks, (int64_t)CLUSTER * p.rows * p.columns));
    return cudaLaunchKernelEx(&config, kernel, p, result) == cudaSuccess;
}

#endif
