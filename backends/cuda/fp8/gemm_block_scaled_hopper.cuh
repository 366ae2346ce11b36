/* gemm_block_scaled_hopper.cuh - products of E4M3 on GPUs of compute capability 9.0: what the
 * groups that multiply do (gemm_block_scaled_tile.cuh).
 *
 * The instruction's sums have fewer bits than f32, so those of each 128 elements along k, which
 * share a scale, are added in f32 to the tile's, times their scales. The groups take turns: while
 * one does that, the tensor cores work for another. */
#ifndef CUDA_GEMM_BLOCK_SCALED_HOPPER_CUH
#define CUDA_GEMM_BLOCK_SCALED_HOPPER_CUH

#include "gemm_block_scaled_tile.cuh"

#if HAS_WGMMA

/* The thread's rows of a piece, above and below, in a stage's scales. */
__device__ __forceinline__ float2 row_pair(uint32_t scales)
{
    const int lane = (int)threadIdx.x % 32, row = (int)threadIdx.x % GROUP / 32 * 16 + lane / 4;
    return make_float2(read_number(scales + 4 * row), read_number(scales + 4 * (row + 8)));
}

/* sum += d times the scales of its rows, above and below, and of its columns. */
__device__ __forceinline__ void add_scaled(float (&sum)[SUMS], const float (&d)[SUMS], float above,
                                           float below)
{
#pragma unroll
    for (int i = 0; i < SUMS; i++)
        sum[i] += d[i] * (i & 2 ? below : above);
}

/* The same with scales of columns, in shared memory from `scales` on. */
__device__ __forceinline__ void add_scaled(float (&sum)[SUMS], const float (&d)[SUMS], float above,
                                           float below, uint32_t scales)
{
#pragma unroll
    for (int i = 0; i < SUMS; i += 4) {
        float left, right;
        load_pair(scales + i * 8, left, right);
        sum[i] += d[i] * (above * left);
        sum[i + 1] += d[i + 1] * (above * right);
        sum[i + 2] += d[i + 2] * (below * left);
        sum[i + 3] += d[i + 3] * (below * right);
    }
}

/* d = a piece's product along 128 elements of k. */
__device__ __forceinline__ void multiply_piece(float (&d)[SUMS], uint32_t a, uint32_t b)
{
    const uint64_t of_a = descriptor_of(a, 0), of_b = descriptor_of(b, 0);
    begin_products();
#pragma unroll
    for (int i = 0; i < SCALED_K / 32; i++)
        multiply_e4m3(d, of_a + 2 * i, of_b + 2 * i, i > 0);
    end_products();
}

/* Piece i of a stage on its way to d. */
template <class SHAPE>
__device__ __forceinline__ void begin_piece(float (&d)[SUMS], const scaled_memory<SHAPE> &m,
                                            int group, int i, int stage)
{
    const int down = i % SHAPE::DOWN, across = i / SHAPE::DOWN;
    multiply_piece(d, m.a(stage) + (group * SHAPE::DOWN + down) * PIECE_M * SCALED_K,
                   m.b(stage) + across * PIECE_N * SCALED_K);
}

/* Waits for it, where OPEN others may be on their way, and adds it to sum. */
template <class SHAPE, int OPEN>
__device__ __forceinline__ void end_piece(float (&sum)[SUMS], float (&d)[SUMS],
                                          const scaled_memory<SHAPE> &m, int group, int i,
                                          int stage)
{
    const int down = i % SHAPE::DOWN, across = i / SHAPE::DOWN, lane = (int)threadIdx.x % 32;
    const bool last = i == SHAPE::PIECES - 1;
    float2 rows = row_pair(m.row_scales(stage) + (group * SHAPE::DOWN + down) * PIECE_M * 4);
    const uint32_t columns = m.column_scales(stage);
    if (!SHAPE::COLUMNS) {
        const float column = read_number(columns + across * 4);
        rows.x *= column;
        rows.y *= column;
    }
    wait_for_products<OPEN>();
#pragma unroll
    for (int j = 0; j < SUMS; j++)
        asm volatile("" : "+f"(d[j])::"memory"); /* not read earlier */
    if (last && !SHAPE::COLUMNS)
        release(m, stage);
    if (SHAPE::COLUMNS)
        add_scaled(sum, d, rows.x, rows.y, columns + (across * PIECE_N + lane % 4 * 2) * 4);
    else
        add_scaled(sum, d, rows.x, rows.y);
    if (last && SHAPE::COLUMNS)
        release(m, stage);
}

/* sum = this group's part of a tile: piece after piece. */
template <class SHAPE>
__device__ __forceinline__ void multiply_in_turn(float (&sum)[SHAPE::PIECES][SUMS],
                                                 const scaled_memory<SHAPE> &m, int group,
                                                 int steps, scaled_ring<SHAPE> &r)
{
    for (int k = 0; k < steps; k++) {
        wait_barrier(m.full + 8 * r.stage, r.phase);
#pragma unroll
        for (int i = 0; i < SHAPE::PIECES; i++) {
            float d[SUMS];
            if (SHAPE::ORDERED)
                named_barrier(ORDER + group, 2 * GROUP);
            begin_piece(d, m, group, i, r.stage);
            if (SHAPE::ORDERED)
                named_arrival(ORDER + (group + 1) % SHAPE::GROUPS, 2 * GROUP);
            end_piece<SHAPE, 0>(sum[i], d, m, group, i, r.stage);
        }
        r.step();
    }
}

/* The same of one piece, with two sets of sums: while one is added to the tile's the tensor cores
 * have the other one's products to do. */
template <class SHAPE>
__device__ __forceinline__ void multiply_ahead(float (&sum)[SUMS], const scaled_memory<SHAPE> &m,
                                               int group, int steps, scaled_ring<SHAPE> &r)
{
    float even[SUMS], odd[SUMS];
    int before = 0;
    const auto begin = [&](float(&d)[SUMS]) {
        wait_barrier(m.full + 8 * r.stage, r.phase);
        begin_piece(d, m, group, 0, r.stage);
    };
    const auto next = [&] {
        before = r.stage;
        r.step();
    };
    begin(even);
    next();
    int k = 1;
    for (; k + 1 < steps; k += 2) {
        begin(odd);
        end_piece<SHAPE, 1>(sum, even, m, group, 0, before);
        next();
        begin(even);
        end_piece<SHAPE, 1>(sum, odd, m, group, 0, before);
        next();
    }
    if (k < steps) {
        begin(odd);
        end_piece<SHAPE, 1>(sum, even, m, group, 0, before);
        next();
        end_piece<SHAPE, 0>(sum, odd, m, group, 0, before);
    } else {
        end_piece<SHAPE, 0>(sum, even, m, group, 0, before);
    }
}

/* ---- results: a thread has, of rows `row` and 8 further, columns `column` and the next one of
 * every 8 ---- */

/* each(row, column, pair of sums): those that are inside; `both`: the pair's second one, too. */
template <class EACH>
__device__ __forceinline__ void for_pairs(const block_scaled_product &p, int row, int column,
                                          float (&sum)[SUMS], const EACH &each)
{
    const int m = (int)p.of_a.lines, n = (int)p.of_b.lines;
#pragma unroll
    for (int i = 0; i < SUMS; i += 2) {
        const int r = row + (i & 2 ? 8 : 0), c = column + i / 4 * 8;
        if (r < m && c < n)
            each(r, c, c + 1 < n, sum[i], sum[i + 1]);
    }
}

/* What lies outside is read from the last row and column, so that no load waits for another. */
template <class C>
__device__ __forceinline__ void add_addend(const block_scaled_product &p, int row, int column,
                                           float (&sum)[SUMS])
{
    const int batch = 32, last_row = (int)p.of_a.lines - 1, last_column = (int)p.of_b.lines - 1;
    const C *const above = p.addend.row<C>(min(row, last_row));
    const C *const below = p.addend.row<C>(min(row + 8, last_row));
#pragma unroll
    for (int i = 0; i < SUMS; i += batch) {
        float x[batch];
#pragma unroll
        for (int j = 0; j < batch; j++)
            x[j] =
                get((j & 2 ? below : above) + min(column + (i + j) / 4 * 8 + j % 2, last_column));
#pragma unroll
        for (int j = 0; j < batch; j++)
            sum[i + j] += x[j];
    }
}

/* f32 goes to device memory, four lanes 32 bytes. */
__device__ __forceinline__ void write_numbers(const block_scaled_product &p, int row, int column,
                                              float (&sum)[SUMS])
{
    for_pairs(p, row, column, sum, [&](int r, int c, bool both, float &x, float &y) {
        float *const to = p.to.row<float>(r) + c;
        if (both)
            *(float2 *)to = make_float2(x, y);
        else
            *to = x;
    });
}

/* 16 bits by way of shared memory, 64 columns of 64 rows side by side, swizzled as copies do
 * that. */
template <class C, int OUTS>
__device__ __forceinline__ void write_halves(const block_scaled_product &p, int group, int row,
                                             int column, const float (&sum)[SUMS], uint32_t staged)
{
    const int lane = (int)threadIdx.x % 32, line = (int)threadIdx.x % GROUP / 32 * 16 + lane % 16;
    const bool first = threadIdx.x % GROUP == 0;
    const uint32_t own = staged + line * 128 + (lane / 16 ^ line % 8) * 16;
    if (first)
        wait_for_older_stores<OUTS - 1>();
    named_barrier(OWN_BARRIER + group, GROUP);
#pragma unroll
    for (int j = 0; j < PIECE_N; j += 16) {
        const float *const v = sum + j / 2;
        store_matrices(j / 64 * (64 * 128) + (own ^ j / 8 % 8 * 16), narrow_pair<C>(v[0], v[1]),
                       narrow_pair<C>(v[2], v[3]), narrow_pair<C>(v[4], v[5]),
                       narrow_pair<C>(v[6], v[7]));
    }
    fence_shared();
    named_barrier(OWN_BARRIER + group, GROUP);
    if (!first)
        return;
    for (int j = 0; j < PIECE_N; j += 64)
        store_tile(&p.c, column + j, row, staged + j * 128);
    end_stores();
}

/* What a group does that multiplies. */
template <class SHAPE, class C>
__device__ __forceinline__ void make_tiles(const block_scaled_product &p,
                                           const scaled_memory<SHAPE> &m)
{
    const int group = __shfl_sync(~0u, (int)threadIdx.x / GROUP - 1, 0),
              lane = (int)threadIdx.x % 32;
    scaled_ring<SHAPE> r = {0, 0};
    if (SHAPE::ORDERED && group == SHAPE::GROUPS - 1)
        named_arrival(ORDER, 2 * GROUP);
    for_tiles<SHAPE>(p, [&](scaled_place place) {
        float sum[SHAPE::PIECES][SUMS];
        const int row = place.row + group * SHAPE::DOWN * PIECE_M;
#pragma unroll
        for (int i = 0; i < SHAPE::PIECES; i++)
#pragma unroll
            for (int j = 0; j < SUMS; j++)
                sum[i][j] = 0;
        if constexpr (SHAPE::SETS == 2)
            multiply_ahead(sum[0], m, group, p.steps, r);
        else
            multiply_in_turn(sum, m, group, p.steps, r);
#pragma unroll
        for (int i = 0; i < SHAPE::PIECES; i++) {
            const int first = row + i % SHAPE::DOWN * PIECE_M;
            const int column = place.column + i / SHAPE::DOWN * PIECE_N;
            const int own = first + (int)threadIdx.x % GROUP / 32 * 16 + lane / 4;
            if (p.addend.data)
                add_addend<C>(p, own, column + lane % 4 * 2, sum[i]);
            if constexpr (sizeof(C) == 4)
                write_numbers(p, own, column + lane % 4 * 2, sum[i]);
            else
                write_halves<C, SHAPE::OUTS>(p, group, first, column, sum[i],
                                             m.results(group, i % SHAPE::OUTS));
        }
    });
    if (sizeof(C) == 2 && threadIdx.x % GROUP == 0)
        wait_for_stores();
}
#endif

template <class SHAPE, class C>
__global__ void __launch_bounds__(SHAPE::THREADS, 1)
    block_scaled_kernel(const __grid_constant__ block_scaled_product p)
{
#if HAS_WGMMA
    run_scaled<SHAPE>(p, [&](const scaled_memory<SHAPE> &m) { make_tiles<SHAPE, C>(p, m); });
#else
    (void)p;
#endif
}

#endif
