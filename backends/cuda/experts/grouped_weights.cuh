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
    const int *taken;          /* a's rows, all of them there; NULL: row i itself */
    int64_t stride, b_stride;
    int bytes, b_bytes;
    int accumulate; /* results of f32 are added to what is there */
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

/* Of the last rows of an expert, `left` of 64: columns of `bytes` from byte `at` on of row from(l),
 * in panels of 64 columns; what is behind `left` and behind the row's end is 0. own: the thread's
 * place, at row `line` of each 8. */
template <int EACH, class FROM>
__device__ __forceinline__ void load_last(uint32_t own, int line, int apart, int left, int inside,
                                          const FROM &from)
{
#pragma unroll 1
    for (int i = 0; i < EACH; i++) {
        const int l = line + i * apart;
        load_16(own + i * apart * LINE_BYTES, from(l), l < left ? inside : 0);
    }
}

/* The last rows of b, behind which those of the next expert are. */
__device__ __forceinline__ void load_last_of_b(const grouped_weights &p, uint32_t b, int x, int row,
                                               int left)
{
    enum { CHUNKS = TILE_N / 8, APART = GROUP / CHUNKS };
    const int chunk = (int)threadIdx.x % CHUNKS, first = (int)threadIdx.x / CHUNKS;
    const int at = x * 2 + chunk * 16, inside = at < p.b_bytes ? 16 : 0;
    const char *const from = p.b_from + (inside ? at : 0);
#pragma unroll
    for (int half = 0; half < 8 / APART; half++) {
        const int line = first + half * APART;
        load_last<8>(b + chunk / 8 * BLOCK + line * LINE_BYTES + (chunk % 8 ^ line) * 16, line, 8,
                     left, inside,
                     [&](int l) { return from + (row + min(l, left - 1)) * p.b_stride; });
    }
}

/* By four warps. Of each row of a, 16 threads have 16 bytes each; a lane asks for the numbers of
 * two of a step's 64 rows, AHEAD steps before they are loaded. There is one warp for each
 * scheduler, so that a step must take few instructions. */
__device__ __forceinline__ void gather_steps(const grouped_weights &p, const product_memory &m)
{
    enum { AHEAD = 2, CHUNKS = TILE_M / 8, APART = GROUP / CHUNKS, EACH = TILE_K / APART };
    const int block = cluster_rank(), lane = (int)threadIdx.x % 32;
    const int chunk = (int)threadIdx.x % CHUNKS, line = (int)threadIdx.x / CHUNKS;
    const uint32_t own = chunk / 8 * BLOCK + line * LINE_BYTES + (chunk % 8 ^ line) * 16;
    const unsigned stride = (unsigned)p.stride;
    ring r = {0, 0};
    static_assert(APART == 8, "a thread's rows are swizzled alike");
    for_weight_jobs(p, [&](const weight_job &j) {
        const int steps = j.steps(), at = (j.row * CLUSTER + block) * (TILE_M * 2) + chunk * 16;
        const int inside = at < p.bytes ? 16 : 0, column = j.column * TILE_N + block * SHARE;
        const char *const from = p.from + (inside ? at : 0);
        unsigned rows[AHEAD][2];
        const auto ask = [&](int k, unsigned(&to)[2]) {
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const int n = min(j.first + k * TILE_K + lane + 32 * i, j.end - 1);
                to[i] = p.taken ? (unsigned)p.taken[n] : (unsigned)n;
            }
        };
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (i < steps)
                ask(i, rows[i]);
        for (int k = 0; k < steps; k++) {
            const uint32_t full = m.full + 8 * r.stage, a = m.a(r.stage) + own;
            const int row = j.first + k * TILE_K, left = j.end - row;
            wait_barrier(m.empty + 8 * r.stage, r.phase ^ 1);
            const unsigned now[2] = {rows[0][0], rows[0][1]};
#pragma unroll
            for (int i = 1; i < AHEAD; i++)
                rows[i - 1][0] = rows[i][0], rows[i - 1][1] = rows[i][1];
            if (k + AHEAD < steps)
                ask(k + AHEAD, rows[AHEAD - 1]);
            if (left >= TILE_K) {
                if (threadIdx.x == 0) {
                    arrive_and_expect(full, TILE_N * TILE_K * 2);
                    for (int i = 0; i < SHARE / 64; i++)
                        load_tile_to((1 << CLUSTER) - 1,
                                     m.b(r.stage) + (block * (SHARE / 64) + i) * BLOCK, &p.b,
                                     column + 64 * i, row, full);
                }
#pragma unroll
                for (int i = 0; i < EACH; i++) {
                    const unsigned l =
                        __shfl_sync(~0u, now[i * APART / 32], (line + i * APART) % 32);
                    load_16(a + i * (APART * LINE_BYTES), from + (uint64_t)l * stride, inside);
                }
            } else {
                if (threadIdx.x == 0)
                    arrive(full);
                load_last<EACH>(a, line, APART, left, inside, [&](int l) {
                    const unsigned n = __shfl_sync(~0u, l < 32 ? now[0] : now[1], l % 32);
                    return from + (uint64_t)n * stride;
                });
                load_last_of_b(p, m.b(r.stage), j.column * TILE_N, row, left);
            }
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

/* 64 rows and columns of f32 with rows and columns exchanged: lines of 32 rows, in two blocks. */
__device__ __forceinline__ void stage_turned(const float *numbers, uint32_t to)
{
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x % GROUP / 32;
    const int column = lane % 4 * 2, chunk = (warp % 2 * 4 + lane / 16) ^ column;
    const uint32_t own = to + warp / 2 * BLOCK + column * LINE_BYTES + lane / 4 % 4 * 4;
#pragma unroll
    for (int i = 0; i < 32; i++) {
        const int right = i % 2, below = i / 2 % 2; /* by a column, by 8 rows */
        store_number(own + (i / 4 * 8 + right) * LINE_BYTES + (chunk ^ (2 * below) ^ right) * 16,
                     numbers[i]);
    }
}

/* The sums in f32, 64 columns at a time. */
template <int TURNED>
__device__ __forceinline__ void send_floats(const grouped_weights &p, const float (&d)[128],
                                            int row, int column, int expert, uint32_t staged)
{
#pragma unroll
    for (int part = 0; part < 4; part++)
        send_part(
            [&] {
                TURNED ? stage_turned(d + 32 * part, staged) : stage_part(d + 32 * part, staged);
            },
            [&] {
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    const int x = TURNED ? row + 32 * i : column + 64 * part + 32 * i;
                    const int y = TURNED ? column + 64 * part : row;
                    if (p.accumulate)
                        add_tile(&p.c, x, y, expert, staged + i * BLOCK);
                    else
                        store_tile(&p.c, x, y, expert, staged + i * BLOCK);
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

template <class T, int TURNED, class C>
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
        row = (j.row * CLUSTER + block) * TILE_M + 64 * group;
        column = j.column * TILE_N;
        if constexpr (sizeof(C) == 4) {
            send_floats<TURNED>(p, d, row, column, j.expert, staged);
        } else {
#pragma unroll
            for (int i = 0; i < 64; i++)
                pairs[i] = narrow_pair<T>(d[2 * i], d[2 * i + 1]);
            expert = j.expert;
            waits = 1;
        }
    });
    turn(0);
    turn(1);
    if (threadIdx.x % GROUP == 0)
        wait_for_stores();
}
#endif

/* C: of the results, T or float. */
template <class T, int TURNED, class C>
__global__ void __launch_bounds__(PRODUCT_THREADS, 1)
    weights_kernel(const __grid_constant__ grouped_weights p)
{
#if HAS_WGMMA
    run_grouped<56>(
        1 + GROUP, [&](const product_memory &m) { gather_steps(p, m); },
        [&](const product_memory &m) { make_weights<T, TURNED, C>(p, m); });
#else
    (void)p;
#endif
}

#endif
