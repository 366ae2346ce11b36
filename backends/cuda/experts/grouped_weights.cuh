/* grouped_weights.cuh - c[e] = a^T b over the rows of each expert, on GPUs of compute capability
 * 9.0: the gradients of experts' matrices, by the tiles of products/gemm_wgmma_tile.cuh. Rows of a
 * may be gathered while they are loaded. Experts without rows get zeros. */
#ifndef CUDA_GROUPED_WEIGHTS_CUH
#define CUDA_GROUPED_WEIGHTS_CUH

#include "grouped_pieces.cuh"
#include "grouped_rows.cuh"

struct grouped_weights {
    CUtensorMap b, c, sums; /* sums: in f32, of the expert that has several pieces */
    piece_list list;
    int *turns;        /* for each group's rows of a tile: the piece that adds its sums next */
    int rows, columns; /* pairs of tiles along a's columns, tiles along b's */
    const char *from, *b_from; /* rows `stride` bytes apart, of `bytes` */
    const int64_t *gather;     /* NULL: row i itself */
    unsigned per, most;        /* no row behind `most` is read */
    int64_t slots;             /* b's rows */
    int64_t stride, b_stride;
    int bytes, b_bytes;
};

#if HAS_WGMMA

/* Tile `row`, `column` of an expert's matrix, from rows `first` to `end`; turn: of the piece. */
struct weight_job {
    int expert, row, column, first, end, turn;
    __device__ __forceinline__ int steps() const
    {
        return (end - first + TILE_K - 1) / TILE_K;
    }
};

template <class EACH>
__device__ __forceinline__ void for_weight_jobs(const grouped_weights &p, const EACH &each)
{
    const int clusters = (int)gridDim.x / CLUSTER, tiles = p.rows * p.columns;
    const int end = p.list[0].x * tiles;
    for (int t = (int)blockIdx.x / CLUSTER; t < end; t += clusters) {
        const int4 piece = p.list[1 + t / tiles];
        const int at = t % tiles;
        each(weight_job{piece.x, at % p.rows, at / p.rows, piece.y, piece.z, piece.w});
    }
}

/* 64 rows of `PANELS` panels of 64 columns, each row of 128 bytes, from column `x` of `bytes` on;
 * rows behind `left` and what lies behind the end of a row are 0. from(i): row i. */
template <int PANELS, class FROM>
__device__ __forceinline__ void load_panels(uint32_t to, int x, int bytes, int left,
                                            const FROM &from)
{
    enum { CHUNKS = PANELS * 8, APART = GROUP / CHUNKS, EACH = TILE_K / APART };
    const int chunk = (int)threadIdx.x % CHUNKS, line = (int)threadIdx.x / CHUNKS;
    const int at = x * 2 + chunk * 16;
    const uint32_t panel = to + chunk / 8 * BLOCK;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const int l = line + i * APART, inside = l < left && at < bytes ? 16 : 0;
        load_16(panel + l * LINE_BYTES + (chunk % 8 ^ l % 8) * 16, from(i, l) + (inside ? at : 0),
                inside);
    }
}

/* By four warps. */
__device__ __forceinline__ void gather_steps(const grouped_weights &p, const product_memory &m)
{
    /* rows of a are asked for AHEAD steps before: a lane has two of a step's 64 */
    enum { AHEAD = 3, EACH = TILE_K * TILE_M / 8 / GROUP };
    const int block = cluster_rank(), lane = (int)threadIdx.x % 32;
    ring r = {0, 0};
    for_weight_jobs(p, [&](const weight_job &j) {
        const int steps = j.steps(), x = (j.row * CLUSTER + block) * TILE_M;
        unsigned rows[AHEAD][2];
        const auto ask = [&](int k, unsigned(&to)[2]) {
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const int at = min(j.first + k * TILE_K + lane + 32 * i, j.end - 1);
                to[i] = p.gather ? ((const unsigned *)p.gather)[2 * at] : (unsigned)at;
            }
        };
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (i < steps)
                ask(i, rows[i]);
        for (int k = 0; k < steps; k++) {
            const uint32_t full = m.full + 8 * r.stage, b = m.b(r.stage);
            const int row = j.first + k * TILE_K, left = min((int)TILE_K, j.end - row);
            const int column = j.column * TILE_N + block * SHARE;
            wait_barrier(m.empty + 8 * r.stage, r.phase ^ 1);
            if (threadIdx.x == 0 && left == TILE_K) {
                arrive_and_expect(full, TILE_N * TILE_K * 2);
                for (int i = 0; i < SHARE / 64; i++)
                    load_tile_to((1 << CLUSTER) - 1, b + (block * (SHARE / 64) + i) * BLOCK, &p.b,
                                 column + 64 * i, row, full);
            } else if (threadIdx.x == 0) {
                arrive(full);
            }
            unsigned now[2];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                now[i] = min(p.most, p.gather ? rows[0][i] / p.per : rows[0][i]);
#pragma unroll
                for (int a = 1; a < AHEAD; a++)
                    rows[a - 1][i] = rows[a][i];
            }
            if (k + AHEAD < steps)
                ask(k + AHEAD, rows[AHEAD - 1]);
            load_panels<TILE_M / 64>(m.a(r.stage), x, p.bytes, left, [&](int i, int l) {
                return p.from + __shfl_sync(~0u, now[i / (EACH / 2)], l % 32) * p.stride;
            });
            /* the last rows, behind which those of the next expert are */
            if (left < TILE_K)
                load_panels<TILE_N / 64>(b, j.column * TILE_N, p.b_bytes, left, [&](int, int l) {
                    return p.b_from + min(row + l, j.end - 1) * p.b_stride;
                });
            arrive_when_loaded(full);
            r.step();
        }
    });
}

/* A tile on its way out, with rows and columns exchanged if TURNED. */
template <int TURNED>
__device__ __forceinline__ void send_weights(const grouped_weights &p, const uint32_t *pairs,
                                             int row, int column, int expert, uint32_t staged)
{
    send_part([&] { TURNED ? stage_turned(pairs, staged) : stage_part(pairs, staged); },
              [&] {
#pragma unroll
                  for (int i = 0; i < 2; i++) {
                      const int at = column + 64 * i;
                      store_tile(&p.c, TURNED ? row : at, TURNED ? at : row, expert,
                                 staged + i * BLOCK);
                  }
              });
}

/* The sums of a piece go to those of the pieces before it, when these are there. */
__device__ __forceinline__ void add_piece(const grouped_weights &p, const weight_job &j,
                                          const float (&d)[128], int row, uint32_t staged)
{
    enum { COLUMNS = STAGED / 64 / 4, LINE = LINE_BYTES / 4 };
    const int tile = j.column * p.rows * PAIR / 64 + row / 64;
    const bool first = threadIdx.x % GROUP == 0;
    if (first) {
        int turn;
        do
            asm volatile("ld.acquire.gpu.global.s32 %0, [%1];"
                         : "=r"(turn)
                         : "l"(p.turns + tile)
                         : "memory");
        while (turn != j.turn);
    }
#pragma unroll
    for (int i = 0; i < TILE_N / COLUMNS; i++)
        send_part([&] { stage_part(d + 128 / (TILE_N / COLUMNS) * i, staged); },
                  [&] {
#pragma unroll
                      for (int l = 0; l < COLUMNS / LINE; l++) {
                          const int column = j.column * TILE_N + i * COLUMNS + l * LINE;
                          if (j.turn == 0)
                              store_tile(&p.sums, column, row, staged + l * BLOCK);
                          else
                              add_tile(&p.sums, column, row, staged + l * BLOCK);
                      }
                  });
    if (first) {
        wait_for_stores();
        __threadfence();
        asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(p.turns + tile), "r"(j.turn + 1)
                     : "memory");
    }
}

template <class T, int TURNED>
__device__ __forceinline__ void make_weights(const grouped_weights &p, const product_memory &m)
{
    const int block = cluster_rank(), group = (int)threadIdx.x / GROUP - 1;
    const uint32_t staged = m.results + group * STAGED;
    uint32_t pairs[64];
    int row = 0, column = 0, expert = 0, waits = 0;
    ring r = {0, 0};
    const auto turn = [&](int k) {
        if (waits && k == 0)
            send_weights<TURNED>(p, pairs, row, column, expert, staged);
        if (waits && k == 1) {
            send_weights<TURNED>(p, pairs + 32, row, column + 128, expert, staged);
            waits = 0;
        }
    };
    for_weight_jobs(p, [&](const weight_job &j) {
        const int steps = j.steps();
        float d[128];
        if (steps > 0) {
            multiply_tile<T, 1, 1, true>(d, m, group, steps, r, turn);
        } else {
#pragma unroll
            for (int i = 0; i < 128; i++)
                d[i] = 0;
        }
        for (int k = steps; k < 2; k++)
            turn(k);
        if (j.turn >= 0) {
            add_piece(p, j, d, (j.row * CLUSTER + block) * TILE_M + 64 * group, staged);
            return;
        }
#pragma unroll
        for (int i = 0; i < 64; i++)
            pairs[i] = narrow_pair<T>(d[2 * i], d[2 * i + 1]);
        row = (j.row * CLUSTER + block) * TILE_M + 64 * group;
        column = j.column * TILE_N;
        expert = j.expert;
        waits = 1;
    });
    turn(0);
    turn(1);
    if (threadIdx.x % GROUP == 0)
        wait_for_stores();
}
#endif

template <class T, int TURNED>
__global__ void __launch_bounds__(PRODUCT_THREADS, 1)
    weights_kernel(const __grid_constant__ grouped_weights p)
{
#if HAS_WGMMA
    run_grouped(
        1 + GROUP, [&](const product_memory &m) { gather_steps(p, m); },
        [&](const product_memory &m) { make_weights<T, TURNED>(p, m); });
#else
    (void)p;
#endif
}

#endif
