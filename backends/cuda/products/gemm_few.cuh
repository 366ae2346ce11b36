/* gemm_few.cuh - products of 16-bit matrices with few tiles on GPUs of compute capability 9.0:
 * tiles of 64 x 64, a block each, where those of gemm_wgmma_tile.cuh would leave most of the card
 * without work. They add up along k in the same order, 16 elements at a time by instructions of the
 * same kind, and have the same bits. */
#ifndef CUDA_GEMM_FEW_CUH
#define CUDA_GEMM_FEW_CUH

#include "gemm_wgmma.cuh"

enum {
    FEW_TILE = 64, /* rows and columns of a tile */
    FEW_STAGES = 6,
    FEW_PART = FEW_TILE * TILE_K * 2, /* bytes of an operand in a stage */
    FEW_THREADS = GROUP + 32,         /* four warps multiply, one thread of the fifth copies */
    FEW_SHARED = FEW_STAGES * 2 * FEW_PART + 1024 /* to begin at a multiple of 1024 */
};

struct few_product {
    CUtensorMap a, b;
    char *c;
    int64_t stride; /* bytes from one row of c to the next */
    int lines, columns, steps;
    float alpha;
};

#if HAS_WGMMA

#define FEW_8(d, i)                                                                             \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
        "+f"(d[i + 6]), "+f"(d[i + 7])
#define FEW_MULTIPLY(TYPE)                                                                 \
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

/* d = a b, or with `add` d += a b: 64 x 16 by 16 x 64 elements, k of a contiguous. */
template <class T, int B_ACROSS>
__device__ __forceinline__ void multiply_few(float (&d)[32], uint64_t a, uint64_t b, int add)
{
    if constexpr (std::is_same<T, bf16>::value)
        FEW_MULTIPLY("bf16");
    else
        FEW_MULTIPLY("f16");
}

#undef FEW_MULTIPLY
#undef FEW_8

/* Both operands of a stage lie behind each other; barriers: full, then empty. */
struct few_memory {
    uint32_t barriers, tiles;
    __device__ __forceinline__ uint32_t full(int stage) const
    {
        return barriers + 8 * stage;
    }
    __device__ __forceinline__ uint32_t empty(int stage) const
    {
        return barriers + 8 * (FEW_STAGES + stage);
    }
    __device__ __forceinline__ uint32_t a(int stage) const
    {
        return tiles + stage * 2 * FEW_PART;
    }
    __device__ __forceinline__ uint32_t b(int stage) const
    {
        return a(stage) + FEW_PART;
    }
};

/* By one thread. */
template <int B_ACROSS>
__device__ __forceinline__ void copy_few(const few_product &p, const few_memory &m, int row,
                                         int column)
{
    for (int k = 0; k < p.steps; k++) {
        const int stage = k % FEW_STAGES, at = k * TILE_K;
        wait_barrier(m.empty(stage), k / FEW_STAGES % 2 ^ 1);
        arrive_and_expect(m.full(stage), 2 * FEW_PART);
        load_tile(m.a(stage), &p.a, at, row, m.full(stage));
        load_tile(m.b(stage), &p.b, B_ACROSS ? column : at, B_ACROSS ? at : column, m.full(stage));
    }
}

__device__ __forceinline__ void leave_few(const few_memory &m, int step)
{
    if (threadIdx.x % 32 == 0)
        arrive(m.empty(step % FEW_STAGES));
}

/* By four warps. */
template <class T, int B_ACROSS>
__device__ __forceinline__ void sum_few(float (&d)[32], const few_memory &m, int steps)
{
    for (int k = 0; k < steps; k++) {
        const int stage = k % FEW_STAGES;
        wait_barrier(m.full(stage), k / FEW_STAGES % 2);
        const uint64_t a = descriptor_of(m.a(stage), BLOCK), b = descriptor_of(m.b(stage), BLOCK);
        begin_products();
#pragma unroll
        for (int i = 0; i < TILE_K / 16; i++)
            multiply_few<T, B_ACROSS>(d, a + i * 2, b + i * (B_ACROSS ? LINE_BYTES : 2), k + i > 0);
        end_products();
        wait_for_products<1>(); /* those of the step before */
        if (k > 0)
            leave_few(m, k - 1);
    }
    wait_for_products<0>();
#pragma unroll
    for (int i = 0; i < 32; i++)
        asm volatile("" : "+f"(d[i])::"memory"); /* not read earlier */
}

/* A thread has, of rows lane / 4 and 8 more of its warp's 16, two neighbours in every 8 columns. */
template <class C, bool ADD>
__device__ __forceinline__ void write_few(const few_product &p, const float (&d)[32], int row,
                                          int column)
{
    const int lane = (int)threadIdx.x % 32;
    row += (int)threadIdx.x / 32 * 16 + lane / 4;
    column += lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < 32; i += 2) {
        const int r = row + i / 2 % 2 * 8, j = column + i / 4 * 8;
        C *const to = (C *)(p.c + r * p.stride) + j;
        if (r >= p.lines || j >= p.columns)
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

template <class T, int B_ACROSS, class C, bool ADD>
__global__ void __launch_bounds__(FEW_THREADS, 2) few_kernel(const __grid_constant__ few_product p)
{
#if HAS_WGMMA
    extern __shared__ char memory[];
    __shared__ uint64_t barriers[2 * FEW_STAGES];
    const few_memory m = {shared_address(barriers), (shared_address(memory) + 1023) & ~1023u};
    const int row = (int)blockIdx.x * FEW_TILE, column = (int)blockIdx.y * FEW_TILE;
    if (threadIdx.x == 0) {
        for (int i = 0; i < FEW_STAGES; i++) {
            init_barrier(m.full(i), 1);
            init_barrier(m.empty(i), GROUP / 32);
        }
        fence_barriers();
    }
    __syncthreads();
    if (threadIdx.x >= GROUP) {
        if (threadIdx.x == GROUP)
            copy_few<B_ACROSS>(p, m, row, column);
        return;
    }
    float d[32];
    sum_few<T, B_ACROSS>(d, m, p.steps);
    write_few<C, ADD>(p, d, row, column);
#else
    (void)p;
#endif
}

/* ---- the host's side ---- */

/* One of the operands has a tile's lines, so that the other one is read once; or there are no more
 * tiles than multiprocessors. */
static inline bool are_few(const cuda_call &call, const product_operand &a,
                           const product_operand &b)
{
    const int64_t down = ceil_div(a.lines, FEW_TILE), across = ceil_div(b.lines, FEW_TILE);
    return across <= 65535 && (down == 1 || across == 1 || down * across <= call.processors);
}

/* As launch_product() with a scaled result, k of a contiguous. */
template <class T, int B_ACROSS, class C, bool ADD>
static bool launch_few(const cuda_call &call, int type, const product_operand &a,
                       const product_operand &b, void *c, int64_t stride, float alpha)
{
    const auto kernel = few_kernel<T, B_ACROSS, C, ADD>;
    few_product p = {};
    if (call.capability != 90 || !map_operand<0, FEW_TILE>(&p.a, type, a) ||
        !map_operand<B_ACROSS, FEW_TILE>(&p.b, type, b) ||
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, FEW_SHARED) !=
            cudaSuccess)
        return false;
    p.c = (char *)c;
    p.stride = stride * (int64_t)sizeof(C);
    p.lines = (int)a.lines;
    p.columns = (int)b.lines;
    p.steps = (int)ceil_div(a.k, TILE_K);
    p.alpha = alpha;
    const dim3 grid((unsigned)ceil_div(a.lines, FEW_TILE), (unsigned)ceil_div(b.lines, FEW_TILE));
    kernel<<<grid, FEW_THREADS, FEW_SHARED, call.stream>>>(p);
    return true;
}

#endif
