/* gemm_few.cuh - products of 16-bit matrices with few tiles on GPUs of compute capability 9.0,
 * where those of gemm_wgmma_tile.cuh would leave most of the card without work
 * (gemm_few_tile.cuh): which tiles a product has, and its launch. */
#ifndef CUDA_GEMM_FEW_CUH
#define CUDA_GEMM_FEW_CUH

#include "gemm_few_tile.cuh"

/* The tiles of a product, and whether those below each other share what they read of b. */
struct few_plan {
    int groups, width, stages, down;
};

/* down, across: tiles of 64 x 64. Where one operand has a tile's lines the other one is read once
 * by any tiles, which then are such that most of the card reads; with as many tiles as
 * multiprocessors a block has all of the shared memory for what is on its way. Returns groups = 0
 * where the tiles of large products are better. */
static inline few_plan few_plan_of(int64_t down, int64_t across, int narrow, int processors)
{
    const int pair = down == 1 ? 1 : 2;
    if (down == 1 && narrow && 2 * across <= processors)
        return {1, FEW_NARROW, 16, 1};
    if (ceil_div(down, pair) * pair * across <= processors)
        return {1, FEW_TILE, 13, pair};
    if (down == 1 || across == 1)
        return {1, FEW_TILE, 6, 1}; /* two blocks at a time */

    /* tiles of 128 rows */
    const int64_t tall = ceil_div(down, 2);
    const int tall_pair = tall == 1 ? 1 : 2;
    const int64_t blocks = ceil_div(tall, tall_pair) * tall_pair * across;
    if (blocks <= processors)
        return {2, FEW_TILE, 9, tall_pair};
    if (blocks <= 2 * processors)
        return {2, FEW_TILE, 4, tall_pair}; /* two blocks at a time */
    return {};
}

template <class T, int B_ACROSS, class C, bool ADD, int GROUPS_DOWN, int WIDTH>
static bool launch_few_tiles(const cuda_call &call, int type, const product_operand &a,
                             const product_operand &b, const few_plan &plan, few_product &p)
{
    typedef few_tile<GROUPS_DOWN, WIDTH> tile;
    const auto kernel = few_kernel<T, B_ACROSS, C, ADD, GROUPS_DOWN, WIDTH>;
    const int shared = plan.stages * tile::STAGE + 1024; /* to begin at a multiple of 1024 */
    const int64_t tiles_down = ceil_div(a.lines, tile::LINES * plan.down) * plan.down;
    const int b_lines = (B_ACROSS ? TILE_K : WIDTH) / plan.down;
    p.tile_lines = (int)ceil_div(a.lines, tiles_down);
    p.tiles_down = (int)tiles_down;
    p.down = plan.down;
    p.stages = plan.stages;
    if (!cuda_tensor_map(&p.a, type, a.data, a.lines, a.k, 2 * a.stride, p.tile_lines) ||
        !cuda_tensor_map(&p.b, type, b.data, B_ACROSS ? b.k : b.lines, B_ACROSS ? b.lines : b.k,
                         2 * b.stride, b_lines) ||
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared) !=
            cudaSuccess)
        return false;
    cudaLaunchAttribute cluster;
    const cudaLaunchConfig_t config = cluster_config(
        call, plan.down, tiles_down * ceil_div(b.lines, WIDTH), tile::THREADS, shared, &cluster);
    return cudaLaunchKernelEx(&config, kernel, p) == cudaSuccess;
}

/* As launch_product() with a scaled result, k of a contiguous. */
template <class T, int B_ACROSS, class C, bool ADD>
static bool launch_few(const cuda_call &call, int type, const product_operand &a,
                       const product_operand &b, const few_plan &plan, void *c, int64_t stride,
                       float alpha)
{
    few_product p = {};
    if (call.capability != 90)
        return false;
    p.c = (char *)c;
    p.stride = stride * (int64_t)sizeof(C);
    p.lines = (int)a.lines;
    p.columns = (int)b.lines;
    p.steps = (int)ceil_div(a.k, TILE_K);
    p.alpha = alpha;
    if (plan.groups == 2)
        return launch_few_tiles<T, B_ACROSS, C, ADD, 2, FEW_TILE>(call, type, a, b, plan, p);
    if constexpr (!B_ACROSS)
        if (plan.width == FEW_NARROW)
            return launch_few_tiles<T, 0, C, ADD, 1, FEW_NARROW>(call, type, a, b, plan, p);
    return launch_few_tiles<T, B_ACROSS, C, ADD, 1, FEW_TILE>(call, type, a, b, plan, p);
}

#endif
