/* gemm_block_scaled_tile.cuh - tiles of a product of E4M3 on GPUs of compute capability 9.0: how
 * they come to shared memory.
 *
 * A block makes tiles of SHAPE::M x SHAPE::N, one after the other. Of its groups of four warps the
 * first has what comes next copied to shared memory, STAGES ahead: one thread 128 elements along k
 * of both operands, one warp the scales that belong to them. Each other group multiplies its part
 * of the rows. Two blocks, a cluster, work on tiles beside each other, and each copies half of the
 * operand that both need, for both. */
#ifndef CUDA_GEMM_BLOCK_SCALED_TILE_CUH
#define CUDA_GEMM_BLOCK_SCALED_TILE_CUH

#include "block_scaled.cuh"
#include "multiply_e4m3.cuh"

enum {
    PIECE_M = 64, /* what is multiplied at once */
    PIECE_N = 128,
    SUMS = PIECE_M * PIECE_N / 128, /* of a thread, of a piece */
    GROUP = 128,                    /* threads that multiply together */
    CLUSTER = 2,
    PIECE_BYTES = PIECE_M * PIECE_N * 2, /* of 16-bit results on their way out */
    LOADER = 1,                          /* the warp that has scales copied */
    OWN_BARRIER = 1,                     /* names of barriers: of each group */
    ORDER = 8
};

/* GROUPS groups, each with DOWN pieces below each other and ACROSS beside each other, the sums of
 * SETS pieces in registers beside the tile's, and room for OUTS pieces of results. COLUMNS: each
 * column has a scale. */
template <int GROUPS_, int DOWN_, int ACROSS_, int SETS_, int STAGES_, int OUTS_, int COLUMNS_,
          int ORDERED_ = 0>
struct scaled_shape {
    static constexpr int GROUPS = GROUPS_, DOWN = DOWN_, ACROSS = ACROSS_, SETS = SETS_,
                         STAGES = STAGES_, OUTS = OUTS_, COLUMNS = COLUMNS_, ORDERED = ORDERED_;
    static constexpr int M = GROUPS * DOWN * PIECE_M, N = ACROSS * PIECE_N;
    static constexpr int PIECES = DOWN * ACROSS, THREADS = GROUP * (1 + GROUPS);
    static constexpr int A_BYTES = M * SCALED_K, STAGE = (M + N) * SCALED_K;
    /* the wider operand is the one that both blocks of a cluster need */
    static constexpr bool SHARES_A = M > N;
    static constexpr int M_BLOCKS = SHARES_A ? 1 : CLUSTER, N_BLOCKS = SHARES_A ? CLUSTER : 1;
    static constexpr int A_LINES = M / N_BLOCKS, B_LINES = N / M_BLOCKS; /* of a copy */
    static constexpr int B_SCALES = COLUMNS ? N : ACROSS, SCALES = M + (B_SCALES + 3) / 4 * 4;
    static constexpr int SHARED =
        STAGES * (STAGE + SCALES * 4) + GROUPS * OUTS * PIECE_BYTES + 1024;
};

/* c = a b + addend. Tiles are counted in clusters'. */
struct block_scaled_product {
    CUtensorMap a, b, c; /* c: of 16 bits */
    block_scaled_operand of_a, of_b;
    row_span to, addend; /* addend: may be absent */
    int rows, columns;
    int steps;    /* along k */
    int together; /* rows of tiles that are worked on at the same time, so that L2 has them */
};

#if HAS_WGMMA

struct scaled_place {
    int row, column;
};

/* The first row and column of this block's tile. */
template <class SHAPE>
__device__ __forceinline__ scaled_place place_of(const block_scaled_product &p, int tile)
{
    const int strip = p.together * p.columns, first = tile / strip * p.together;
    const int rows = min(p.together, p.rows - first), at = tile % strip, block = cluster_rank();
    const int row = (first + at % rows) * SHAPE::M_BLOCKS, column = at / rows * SHAPE::N_BLOCKS;
    return {(row + (SHAPE::M_BLOCKS > 1 ? block : 0)) * SHAPE::M,
            (column + (SHAPE::N_BLOCKS > 1 ? block : 0)) * SHAPE::N};
}

/* each(place): the tiles of this block. */
template <class SHAPE, class EACH>
__device__ __forceinline__ void for_tiles(const block_scaled_product &p, const EACH &each)
{
    for (int t = (int)blockIdx.x / CLUSTER; t < p.rows * p.columns; t += (int)gridDim.x / CLUSTER)
        each(place_of<SHAPE>(p, t));
}

/* The ring of stages: which comes next, and in which phase its barriers are. */
template <class SHAPE> struct scaled_ring {
    int stage, phase;
    __device__ __forceinline__ void step()
    {
        phase ^= ++stage == SHAPE::STAGES;
        stage = stage == SHAPE::STAGES ? 0 : stage;
    }
};

template <class SHAPE> struct scaled_memory {
    uint32_t full, empty; /* barriers of the stages */
    uint32_t tiles;
    __device__ __forceinline__ uint32_t a(int stage) const
    {
        return tiles + stage * SHAPE::STAGE;
    }
    __device__ __forceinline__ uint32_t b(int stage) const
    {
        return a(stage) + SHAPE::A_BYTES;
    }
    __device__ __forceinline__ uint32_t results(int group, int out) const
    {
        return tiles + SHAPE::STAGES * SHAPE::STAGE + (group * SHAPE::OUTS + out) * PIECE_BYTES;
    }
    /* Of a stage's rows. */
    __device__ __forceinline__ uint32_t row_scales(int stage) const
    {
        return results(SHAPE::GROUPS, 0) + stage * SHAPE::SCALES * 4;
    }
    /* Of its columns, or its pieces of columns. */
    __device__ __forceinline__ uint32_t column_scales(int stage) const
    {
        return row_scales(stage) + SHAPE::M * 4;
    }
};

/* `LINES` lines of what this block needs alone, or its half of what both need. */
template <bool SHARED, int LINES>
__device__ __forceinline__ void load_scaled(uint32_t to, const CUtensorMap *map, int k, int line,
                                            uint32_t barrier)
{
    const int own = SHARED ? cluster_rank() * LINES : 0;
    if (SHARED)
        load_tile_to((1 << CLUSTER) - 1, to + own * SCALED_K, map, k, line + own, barrier);
    else
        load_tile(to, map, k, line, barrier);
}

/* What one thread of the block does: the copies. */
template <class SHAPE>
__device__ __forceinline__ void copy_operands(const block_scaled_product &p,
                                              const scaled_memory<SHAPE> &m)
{
    scaled_ring<SHAPE> r = {0, 0};
    for_tiles<SHAPE>(p, [&](scaled_place place) {
        for (int k = 0; k < p.steps; k++) {
            const uint32_t full = m.full + 8 * r.stage;
            wait_barrier(m.empty + 8 * r.stage, r.phase ^ 1);
            arrive_and_expect(full, SHAPE::STAGE);
            load_scaled<SHAPE::SHARES_A, SHAPE::A_LINES>(m.a(r.stage), &p.a, k * SCALED_K,
                                                         place.row, full);
            load_scaled<!SHAPE::SHARES_A, SHAPE::B_LINES>(m.b(r.stage), &p.b, k * SCALED_K,
                                                          place.column, full);
            r.step();
        }
    });
}

__device__ __forceinline__ float read_number(uint32_t from)
{
    float a;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(a) : "r"(from) : "memory");
    return a;
}

/* Until all but the last OPEN stores that this thread has ended have read their shared memory. */
template <int OPEN> __device__ __forceinline__ void wait_for_older_stores()
{
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(OPEN) : "memory");
}

/* What a warp does: the scales of each stage. */
template <class SHAPE>
__device__ __forceinline__ void copy_scales(const block_scaled_product &p,
                                            const scaled_memory<SHAPE> &m)
{
    const int lane = (int)threadIdx.x % 32, last_row = (int)p.of_a.lines - 1;
    const int last = (int)(p.of_b.lines - 1) >> (SHAPE::COLUMNS ? 0 : 7);
    scaled_ring<SHAPE> r = {0, 0};
    for_tiles<SHAPE>(p, [&](scaled_place place) {
        const float *of_a = p.of_a.scale, *of_b = p.of_b.scale;
        const int column = SHAPE::COLUMNS ? place.column : place.column / PIECE_N;
        for (int k = 0; k < p.steps; k++) {
            wait_barrier(m.empty + 8 * r.stage, r.phase ^ 1);
#pragma unroll
            for (int i = 0; i < SHAPE::M; i += 32)
                copy_word_ahead(m.row_scales(r.stage) + 4 * (i + lane),
                                of_a + min(place.row + i + lane, last_row));
#pragma unroll
            for (int i = 0; i < SHAPE::B_SCALES; i += 32)
                if (SHAPE::COLUMNS || lane < SHAPE::B_SCALES)
                    copy_word_ahead(m.column_scales(r.stage) + 4 * (i + lane),
                                    of_b + min(column + i + lane, last));
            arrive_when_loaded(m.full + 8 * r.stage);
            of_a += p.of_a.scale_stride;
            of_b += p.of_b.scale_stride;
            r.step();
        }
    });
}

/* This warp is done with a stage, which both blocks write to. */
template <class SHAPE>
__device__ __forceinline__ void release(const scaled_memory<SHAPE> &m, int stage)
{
    const int lane = (int)threadIdx.x % 32;
    __syncwarp();
    if (lane < CLUSTER)
        arrive_at(m.empty + 8 * stage, lane);
}

/* What a block does. make(memory): the groups that multiply. */
template <class SHAPE, class MAKE>
__device__ __forceinline__ void run_scaled(const block_scaled_product &p, const MAKE &make)
{
    extern __shared__ char memory[];
    __shared__ uint64_t full[SHAPE::STAGES], empty[SHAPE::STAGES];
    const scaled_memory<SHAPE> m = {shared_address(full), shared_address(empty),
                                    (shared_address(memory) + 1023) & ~1023u};
    if (threadIdx.x == 0) {
        for (int i = 0; i < SHAPE::STAGES; i++) {
            init_barrier(m.full + 8 * i, 1 + 32); /* the copies' thread, the scales' warp */
            init_barrier(m.empty + 8 * i, CLUSTER * SHAPE::GROUPS * GROUP / 32);
        }
        fence_barriers();
    }
    cluster_barrier();
    if (threadIdx.x < GROUP) {
        fewer_registers<SHAPE::GROUPS == 2 ? 40 : 32>();
        if (threadIdx.x == 0)
            copy_operands<SHAPE>(p, m);
        else if (threadIdx.x / 32 == LOADER)
            copy_scales<SHAPE>(p, m);
    } else {
        more_registers<SHAPE::GROUPS == 2 ? 232 : 160>();
        make(m);
    }
    cluster_barrier(); /* no block ends while the other one may write to it */
}

#endif
#endif
