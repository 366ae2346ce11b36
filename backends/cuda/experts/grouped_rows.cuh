/* grouped_rows.cuh - c = a b[e] for the rows of each expert, on GPUs of compute capability 9.0: the
 * tiles of products/gemm_wgmma_tile.cuh over the list of grouped_jobs.cuh. Rows of a may be
 * gathered while they are loaded. */
#ifndef CUDA_GROUPED_ROWS_CUH
#define CUDA_GROUPED_ROWS_CUH

#include "grouped_results.cuh"

#if HAS_WGMMA

/* ---- loads ---- */

/* SHARE columns of b, from so many tiles' halves on. */
template <int LAYOUT>
__device__ __forceinline__ void load_share(const grouped_rows &p, bool shared, uint32_t to,
                                           const job &j, int half, int k, uint32_t full)
{
    if constexpr (LAYOUT == B_HALVES) {
        const int line = j.expert * (p.half / 4) + (j.column * TILE_N + half * SHARE) / 16;
        if (shared)
            load_tile_to((1 << CLUSTER) - 1, to, &p.b, k, 0, 0, line, full);
        else
            load_tile(to, &p.b, k, 0, 0, line, full);
    } else if constexpr (LAYOUT == B_HALVES_ACROSS) {
        for (int i = 0; i < 2; i++)
            load_box(shared, to + i * BLOCK, &p.b,
                     i * p.half + (j.column * TILE_N + half * SHARE) / 2, k,
                     batch_place{0, 0, j.expert}, full);
    } else {
        load_lines<LAYOUT == B_ACROSS_K, SHARE>(shared, to, &p.b, j.column * TILE_N + half * SHARE,
                                                k, batch_place{0, 0, j.expert}, full);
    }
}

template <int LAYOUT>
__device__ __forceinline__ void load_b(const grouped_rows &p, const product_memory &m, int stage,
                                       const job &j, int block, int k)
{
    const uint32_t full = m.full + 8 * stage;
    if (!is_alone(j)) {
        load_share<LAYOUT>(p, true, m.b(stage) + block * (SHARE * TILE_K * 2), j, block, k, full);
        return;
    }
    for (int half = 0; half < TILE_N / SHARE; half++)
        load_share<LAYOUT>(p, false, m.b(stage) + half * (SHARE * TILE_K * 2), j, half, k, full);
}

/* By one thread: rows of a in their order. */
template <int LAYOUT>
__device__ __forceinline__ void copy_rows(const grouped_rows &p, const product_memory &m)
{
    const int block = cluster_rank();
    ring r = {0, 0};
    for_jobs(p, m, [&](const job &j) {
        const int groups = (rows_of_group(j, block, 0) > 0) + (rows_of_group(j, block, 1) > 0);
        for (int k = 0; k < p.steps; k++) {
            const uint32_t full = m.full + 8 * r.stage;
            wait_barrier(m.empty + 8 * r.stage, r.phase ^ 1);
            arrive_and_expect(full, TILE_N * TILE_K * 2 + groups * BLOCK);
            for (int g = 0; g < groups; g++)
                load_tile(m.a(r.stage) + g * BLOCK, &p.a, k * TILE_K,
                          j.row + first_row_of(j, block, g), full);
            load_b<LAYOUT>(p, m, r.stage, j, block, k * TILE_K);
            r.step();
        }
    });
}

/* By four warps: rows of a from where they are. Of each row 8 threads have 16 bytes each. */
template <int LAYOUT>
__device__ __forceinline__ void gather_rows(const grouped_rows &p, const product_memory &m)
{
    enum { EACH = TILE_M * 8 / GROUP, APART = GROUP / 8 };
    const int block = cluster_rank(), thread = (int)threadIdx.x;
    const int chunk = thread % 8, line = thread / 8;
    const uint32_t own = line * LINE_BYTES + (chunk ^ line % 8) * 16;
    ring r = {0, 0};
    for_jobs(p, m, [&](const job &j) {
        const int groups = (rows_of_group(j, block, 0) > 0) + (rows_of_group(j, block, 1) > 0);
        unsigned rows[EACH];
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const int l = line + i * APART;
            const int at = j.row + min(j.rows - 1, first_row_of(j, block, l / ROWS) + l % ROWS);
            rows[i] = min(p.most, p.gather ? (unsigned)p.gather[at] / p.per : (unsigned)at);
        }
        for (int k = 0; k < p.steps; k++) {
            const uint32_t full = m.full + 8 * r.stage;
            wait_barrier(m.empty + 8 * r.stage, r.phase ^ 1);
            if (thread == 0) {
                arrive_and_expect(full, TILE_N * TILE_K * 2);
                load_b<LAYOUT>(p, m, r.stage, j, block, k * TILE_K);
            }
            const int at = k * (TILE_K * 2) + chunk * 16, inside = at < p.bytes ? 16 : 0;
            const char *const from = p.from + (inside ? at : 0);
#pragma unroll
            for (int i = 0; i < EACH; i++)
                if (i < EACH / 2 || groups > 1)
                    load_16(m.a(r.stage) + own + i * (APART * LINE_BYTES),
                            from + rows[i] * p.stride, inside);
            arrive_when_loaded(full);
            r.step();
        }
    });
}

/* ---- the kernel ---- */

template <class T, int LAYOUT, int GATHER, int KIND>
__device__ __forceinline__ void make_rows(const grouped_rows &p, const product_memory &m)
{
    const int block = cluster_rank(), group = (int)threadIdx.x / GROUP - 1;
    ring r = {0, 0};
    results<T, KIND, LAYOUT> out;
    out.start(m, group);
    for_jobs(p, m, [&](const job &j) {
        const int rows = rows_of_group(j, block, group),
                  row = j.row + first_row_of(j, block, group);
        if (rows == 0) {
            for (int k = 0; k < p.steps; k++) {
                wait_barrier(m.full + 8 * r.stage, r.phase);
                /* products keep the threads of a group together; without them one that is late by
                 * the whole ring would wait for a phase that has gone by, for ever */
                group_barrier();
                release(m, r.stage);
                r.step();
            }
            return;
        }
        float d[128];
        out.begin(p, j, row, rows);
        multiply_tile<T, 0, IS_ACROSS<LAYOUT>, GATHER>(
            d, m, group, p.steps, r, [&](int k) { out.turn(p, k); },
            rows_of_group(j, block, GROUPS - 1) > 0);
        if (p.steps < 2)
            out.turn(p, 1);
        out.finish(p, j, d, row, rows);
    });
    out.last(p);
    if (threadIdx.x % GROUP == 0)
        wait_for_stores();
}

/* What a block does. LOADERS: threads that arrive where a stage is loaded. load(memory): the first
 * group, make(memory): the others. */
template <int LOADERS_REGISTERS = 40, class LOAD, class MAKE>
__device__ __forceinline__ void run_grouped(int loaders, const LOAD &load, const MAKE &make)
{
    extern __shared__ char memory[];
    __shared__ __align__(16) uint64_t barriers[2 * STAGES + GROUPS + 3 * TICKETS];
    const uint32_t tiles = (shared_address(memory) + 1023) & ~1023u;
    const uint32_t full = shared_address(barriers);
    const product_memory m = {full, full + 8 * STAGES, tiles, tiles + STAGES * STAGE};
    if (threadIdx.x == 0) {
        for (int i = 0; i < GROUPS; i++)
            init_barrier(came_barrier(m, i), 1);
        for (int i = 0; i < TICKETS; i++)
            init_barrier(ticket_barrier(m, i), 1);
        for (int i = 0; i < STAGES; i++) {
            init_barrier(m.full + 8 * i, loaders);
            init_barrier(m.empty + 8 * i, CLUSTER * GROUPS);
        }
        fence_barriers();
    }
    cluster_barrier();
    if (threadIdx.x < GROUP) {
        fewer_registers<LOADERS_REGISTERS>();
        load(m);
    } else {
        more_registers<252 - LOADERS_REGISTERS / 2>();
        make(m);
    }
    cluster_barrier(); /* no block ends while the other one may write to it */
}
#endif

template <class T, int LAYOUT, int GATHER, int KIND>
__global__ void __launch_bounds__(PRODUCT_THREADS, 1)
    rows_kernel(const __grid_constant__ grouped_rows p)
{
#if HAS_WGMMA
    run_grouped(
        GATHER ? 1 + GROUP : 1,
        [&](const product_memory &m) {
            if constexpr (GATHER)
                gather_rows<LAYOUT>(p, m);
            else if (threadIdx.x == 0)
                copy_rows<LAYOUT>(p, m);
        },
        [&](const product_memory &m) { make_rows<T, LAYOUT, GATHER, KIND>(p, m); });
#else
    (void)p;
#endif
}

#endif
