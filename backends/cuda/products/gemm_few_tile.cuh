/* gemm_few_tile.cuh - tiles of 64 or 128 rows and 32 or 64 columns of products of 16-bit matrices
 * on GPUs of compute capability 9.0, a block each.
 *
 * They add up along k in the order of gemm_wgmma_tile.cuh, 16 elements at a time by instructions of
 * the same kind, and have the same bits. The blocks of a cluster have tiles below each other: each
 * copies a part of the tile of b for all of them. Rows are shared out evenly among tiles: what lies
 * outside of a tensor takes the copy engine as long as what lies inside, or longer. */
#ifndef CUDA_GEMM_FEW_TILE_CUH
#define CUDA_GEMM_FEW_TILE_CUH

#include "gemm_wgmma.cuh"

enum { FEW_TILE = 64, FEW_NARROW = 32, FEW_MOST_STAGES = 16 };

/* A block's tile of GROUPS_DOWN times 64 rows: each group of four warps multiplies 64, one thread
 * of one more warp copies. */
template <int GROUPS_DOWN, int WIDTH> struct few_tile {
    enum {
        LINES = 64 * GROUPS_DOWN,
        OF_A = LINES * LINE_BYTES, /* bytes of a in a stage, before those of b */
        OF_B = WIDTH * LINE_BYTES,
        STAGE = OF_A + OF_B,
        WORKERS = GROUP * GROUPS_DOWN,
        THREADS = WORKERS + 32
    };
};

struct few_product {
    CUtensorMap a, b;
    char *c;
    int64_t stride; /* bytes from one row of c to the next */
    int lines, columns, steps, stages;
    int down;                   /* blocks of a cluster */
    int tiles_down, tile_lines; /* of all rows, and rows of a tile: as few as that makes them */
    float alpha;
};

#if HAS_WGMMA

#define FEW_8(d, i)                                                                             \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
        "+f"(d[i + 6]), "+f"(d[i + 7])
#define FEW_MULTIPLY_64(TYPE)                                                              \
    asm volatile("{\n"                                                                     \
                 ".reg .pred p;\n"                                                         \
                 "setp.ne.b32 p, %34, 0;\n"                                                \
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32." TYPE "." TYPE " "           \
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, "  \
                 "%30, %31}, %32, %33, p, 1, 1, 0, %35;\n"                                 \
                 "}"                                                                       \
                 : FEW_8(d, 0), FEW_8(d, 8), FEW_8(d, 16), FEW_8(d, 24)                    \
                 : "l"(a), "l"(b), "r"(add), "n"(B_ACROSS))
#define FEW_MULTIPLY_32(TYPE)                                                             \
    asm volatile("{\n"                                                                    \
                 ".reg .pred p;\n"                                                        \
                 "setp.ne.b32 p, %18, 0;\n"                                               \
                 "wgmma.mma_async.sync.aligned.m64n32k16.f32." TYPE "." TYPE " "          \
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}" \
                 ", %16, %17, p, 1, 1, 0, %19;\n"                                         \
                 "}"                                                                      \
                 : FEW_8(d, 0), FEW_8(d, 8)                                               \
                 : "l"(a), "l"(b), "r"(add), "n"(B_ACROSS))

/* d = a b, or with `add` d += a b: 64 x 16 by 16 x 2 COUNT elements, k of a contiguous. */
template <class T, int B_ACROSS, int COUNT>
__device__ __forceinline__ void multiply_few(float (&d)[COUNT], uint64_t a, uint64_t b, int add)
{
    constexpr bool IS_BF16 = std::is_same<T, bf16>::value, IS_NARROW = COUNT == FEW_NARROW / 2;
    if constexpr (IS_NARROW && IS_BF16)
        FEW_MULTIPLY_32("bf16");
    else if constexpr (IS_NARROW)
        FEW_MULTIPLY_32("f16");
    else if constexpr (IS_BF16)
        FEW_MULTIPLY_64("bf16");
    else
        FEW_MULTIPLY_64("f16");
}

#undef FEW_MULTIPLY_32
#undef FEW_MULTIPLY_64
#undef FEW_8

/* The stages of a block's tiles; barriers: full, then empty. */
struct few_memory {
    uint32_t barriers, tiles;
    __device__ __forceinline__ uint32_t full(int stage) const
    {
        return barriers + 8 * stage;
    }
    __device__ __forceinline__ uint32_t empty(int stage) const
    {
        return barriers + 8 * (FEW_MOST_STAGES + stage);
    }
};

/* By one thread: the rows of a, and this block's part of b for its cluster. */
template <int B_ACROSS, class TILE>
__device__ __forceinline__ void copy_few(const few_product &p, const few_memory &m, int row,
                                         int column)
{
    const int part = (B_ACROSS ? TILE_K : TILE::OF_B / LINE_BYTES) / p.down;
    const int from = cluster_rank() * part;
    stage_ring r = {0, 0};
    for (int k = 0; k < p.steps; k++) {
        const uint32_t full = m.full(r.stage), to = m.tiles + r.stage * TILE::STAGE;
        const uint32_t b = to + TILE::OF_A + from * LINE_BYTES;
        const int at = k * TILE_K, x = B_ACROSS ? column : at, y = (B_ACROSS ? at : column) + from;
        wait_barrier(m.empty(r.stage), r.phase ^ 1);
        arrive_and_expect(full, p.tile_lines * LINE_BYTES + TILE::OF_B);
        if (p.down > 1)
            load_tile_to((uint16_t)((1 << p.down) - 1), b, &p.b, x, y, full);
        else
            load_tile(b, &p.b, x, y, full);
        load_tile(to, &p.a, at, row, full);
        r.step(p.stages);
    }
}

/* This warp is done with a stage, which all blocks of the cluster write to. */
__device__ __forceinline__ void leave_few(const few_product &p, const few_memory &m, int stage)
{
    const int lane = (int)threadIdx.x % 32;
    if (lane < p.down)
        arrive_at(m.empty(stage), lane);
}

/* By all groups that multiply. */
template <class T, int B_ACROSS, class TILE, int COUNT>
__device__ __forceinline__ void sum_few(float (&d)[COUNT], const few_product &p,
                                        const few_memory &m)
{
    const uint32_t own = m.tiles + (int)threadIdx.x / GROUP * BLOCK;
    stage_ring r = {0, 0};
    int before = 0;
    for (int k = 0; k < p.steps; k++) {
        wait_barrier(m.full(r.stage), r.phase);
        const uint64_t a = descriptor_of(own + r.stage * TILE::STAGE, BLOCK);
        const uint64_t b = descriptor_of(m.tiles + r.stage * TILE::STAGE + TILE::OF_A, BLOCK);
        begin_products();
#pragma unroll
        for (int i = 0; i < TILE_K / 16; i++)
            multiply_few<T, B_ACROSS>(d, a + i * 2, b + i * (B_ACROSS ? LINE_BYTES : 2), k + i > 0);
        end_products();
        wait_for_products<1>(); /* those of the step before */
        if (k > 0)
            leave_few(p, m, before);
        before = r.stage;
        r.step(p.stages);
    }
    wait_for_products<0>();
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        asm volatile("" : "+f"(d[i])::"memory"); /* not read earlier */
}

/* A thread has, of rows lane / 4 and 8 more of its warp's 16, two neighbours in every 8 columns. */
template <class C, bool ADD, int COUNT>
__device__ __forceinline__ void write_few(const few_product &p, const float (&d)[COUNT], int row,
                                          int column)
{
    const int lane = (int)threadIdx.x % 32, end = min(p.lines, row + p.tile_lines);
    row += (int)threadIdx.x / 32 * 16 + lane / 4;
    column += lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < COUNT; i += 2) {
        const int r = row + i / 2 % 2 * 8, j = column + i / 4 * 8;
        C *const to = (C *)(p.c + r * p.stride) + j;
        if (r >= end || j >= p.columns)
            continue;
        const float x = d[i] * p.alpha, y = d[i + 1] * p.alpha;
        if constexpr (sizeof(C) == 2) {
            *(uint32_t *)to = narrow_pair<C>(x, y);
        } else {
            to[0] = ADD ? to[0] + x : x;
            if (j + 1 < p.columns)
                to[1] = ADD ? to[1] + y : y;
        }
    }
}
#endif

template <class T, int B_ACROSS, class C, bool ADD, int GROUPS_DOWN, int WIDTH>
__global__ void __launch_bounds__(few_tile<GROUPS_DOWN, WIDTH>::THREADS)
    few_kernel(const __grid_constant__ few_product p)
{
#if HAS_WGMMA
    typedef few_tile<GROUPS_DOWN, WIDTH> tile;
    extern __shared__ char memory[];
    __shared__ uint64_t barriers[2 * FEW_MOST_STAGES];
    const few_memory m = {shared_address(barriers), (shared_address(memory) + 1023) & ~1023u};
    const int row = (int)blockIdx.x % p.tiles_down * p.tile_lines;
    const int column = (int)blockIdx.x / p.tiles_down * WIDTH;
    if (threadIdx.x == 0) {
        for (int i = 0; i < p.stages; i++) {
            init_barrier(m.full(i), 1);
            init_barrier(m.empty(i), p.down * (tile::WORKERS / 32));
        }
        fence_barriers();
    }
    cluster_barrier();
    if (threadIdx.x < tile::WORKERS) {
        float d[WIDTH / 2];
        sum_few<T, B_ACROSS, tile>(d, p, m);
        write_few<C, ADD>(p, d, row, column);
    } else if (threadIdx.x == tile::WORKERS) {
        copy_few<B_ACROSS, tile>(p, m, row, column);
    }
    cluster_barrier(); /* no block ends while another one may write to it, or arrive there */
#else
    (void)p;
#endif
}

#endif
