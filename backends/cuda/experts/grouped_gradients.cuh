/* grouped_gradients.cuh - gradients of gates from that of their result, which a product of groups
 * of rows has made, before they leave the multiprocessor; on GPUs of compute capability 9.0. */
#ifndef CUDA_GROUPED_GRADIENTS_CUH
#define CUDA_GROUPED_GRADIENTS_CUH

#include "grouped_rows.cuh"

#if HAS_WGMMA

/* The sums are da, the gradient of a slot's a = act(g) u before its weight w: w da act'(g) u and
 * w da act(g), which are the gradients of g and u, w a, and the sum of da a over the tile's
 * columns. g and u come to where results leave from. */
template <class T, bool ANY> struct gradients_of_gates {
    uint32_t staged, came;
    int phase, column;
    float weight[2];

    __device__ __forceinline__ void start(const product_memory &m, int group)
    {
        staged = m.results + group * STAGED;
        came = came_barrier(m, group);
        phase = 0;
    }

    __device__ __forceinline__ void begin(const grouped_rows &p, const job &j, int row, int rows)
    {
        const int own = (int)threadIdx.x % GROUP / 32 * 16 + (int)threadIdx.x % 32 / 4;
        column = j.column * TILE_N;
#pragma unroll
        for (int i = 0; i < 2; i++)
            weight[i] = weight_of(p, p.slot[row + min(own + 8 * i, rows - 1)]);
    }

    __device__ __forceinline__ float weight_of(const grouped_rows &p, int64_t slot)
    {
        return p.weights.data ? get<T>(p.weights, min(p.rows - 1, max((int64_t)0, slot))) : 1;
    }

    __device__ __forceinline__ void turn(const grouped_rows &, int)
    {
    }

    __device__ __forceinline__ void last(const grouped_rows &)
    {
    }

    /* 64 rows of two lines of 128 bytes come. */
    __device__ __forceinline__ void bring(const CUtensorMap *left, int left_column,
                                          const CUtensorMap *right, int right_column, int row)
    {
        group_barrier();
        if (threadIdx.x % GROUP == 0) {
            wait_for_stores_to_read();
            arrive_and_expect(came, STAGED);
            load_tile(staged, left, left_column, row, came);
            load_tile(staged + BLOCK, right, right_column, row, came);
        }
        wait_barrier(came, phase);
        phase ^= 1;
    }

    __device__ __forceinline__ void gate(const grouped_rows &p, float da, float g, float u, float w,
                                         float &sum, float (&out)[3])
    {
        if constexpr (ANY) {
            const gated y = gated_of(p.gate, g, u);
            sum += da * y.value;
            out[0] = w * da * y.of_gate;
            out[1] = w * da * y.of_up;
            out[2] = w * y.value;
            return;
        }
        const logistic s = logistic_of(g);
        const float silu = g * s.value, a = silu * u, scaled = w * da;
        sum += da * a;
        out[0] = scaled * u * (s.value + silu * s.rest);
        out[1] = scaled * silu;
        out[2] = w * a;
    }

    /* g and u are halves. */
    __device__ __forceinline__ void finish(const grouped_rows &p, const job &j, float (&d)[128],
                                           int row, int rows)
    {
        float sums[2] = {};
#pragma unroll
        for (int part = 0; part < 2; part++) {
            uint32_t a[32];
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int at = column + 128 * part + 64 * half;
                uint32_t both[32]; /* 64 columns of g, and of u */
                bring(&p.pre[0], at, &p.pre[1], at, row);
                take_part(both, staged);
#pragma unroll
                for (int i = 0; i < 16; i++) {
                    uint32_t &g = both[i], &u = both[16 + i], &own = a[16 * half + i];
                    const float2 gs = widen_pair<T>(g), us = widen_pair<T>(u);
                    const float *const da = d + 64 * part + 32 * half + 2 * i;
                    float low[3], high[3];
                    gate(p, da[0], gs.x, us.x, weight[i % 2], sums[i % 2], low);
                    gate(p, da[1], gs.y, us.y, weight[i % 2], sums[i % 2], high);
                    g = narrow_pair<T>(low[0], high[0]);
                    u = narrow_pair<T>(low[1], high[1]);
                    own = narrow_pair<T>(low[2], high[2]);
                    /* one after the other, as many registers */
                    asm volatile("" : "+r"(g), "+r"(u), "+r"(own));
                }
                send_lines({{p.c[0], at}, {p.c[1], at}}, both, row, rows, staged);
            }
            send_rows(p.c[2], a, row, rows, column + 128 * part, staged);
        }
        write_scores(p, j, sums, row, rows);
    }

    /* g and u are neighbours, a word of each column of a. */
    __device__ __forceinline__ void finish_paired(const grouped_rows &p, const job &j,
                                                  float (&d)[128], int row, int rows)
    {
        float sums[2] = {};
#pragma unroll
        for (int part = 0; part < 2; part++) {
            const int at = column + 128 * part;
            uint32_t a[32];
#pragma unroll
            for (int half = 0; half < 2; half++) {
                float words[32], low[3], high[3];
                bring(&p.pre[0], at + 64 * half, &p.pre[0], at + 64 * half + 32, row);
                take_part(words, staged);
#pragma unroll
                for (int i = 0; i < 32; i += 2) {
                    const int below = i / 2 % 2;
                    const float *const da = d + 64 * part + 32 * half + i;
                    const float2 left = widen_pair<T>(__float_as_uint(words[i])),
                                 right = widen_pair<T>(__float_as_uint(words[i + 1]));
                    gate(p, da[0], left.x, left.y, weight[below], sums[below], low);
                    gate(p, da[1], right.x, right.y, weight[below], sums[below], high);
                    words[i] = __uint_as_float(narrow_pair<T>(low[0], low[1]));
                    words[i + 1] = __uint_as_float(narrow_pair<T>(high[0], high[1]));
                    a[16 * half + i / 2] = narrow_pair<T>(low[2], high[2]);
                    asm volatile(""
                                 : "+f"(words[i]), "+f"(words[i + 1]), "+r"(a[16 * half + i / 2]));
                }
                send_rows(p.c[0], words, row, rows, at + 64 * half, staged);
            }
            send_rows(p.c[2], a, row, rows, at, staged);
        }
        write_scores(p, j, sums, row, rows);
    }

    __device__ __forceinline__ void write_scores(const grouped_rows &p, const job &j,
                                                 float (&sums)[2], int row, int rows)
    {
        const int own = (int)threadIdx.x % GROUP / 32 * 16 + (int)threadIdx.x % 32 / 4;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            sums[i] += __shfl_xor_sync(~0u, sums[i], 1);
            sums[i] += __shfl_xor_sync(~0u, sums[i], 2);
            if (threadIdx.x % 4 == 0 && own + 8 * i < rows && j.column < p.columns)
                p.scores[j.column * p.rows + row + own + 8 * i] = sums[i];
        }
    }
};

template <class T, int LAYOUT>
struct results<T, GATE_GRADIENTS, LAYOUT> : gradients_of_gates<T, false> {
};

template <class T, int LAYOUT>
struct results<T, ANY_GRADIENTS, LAYOUT> : gradients_of_gates<T, true> {
};

template <class T, int LAYOUT>
struct results<T, PAIRED_GRADIENTS, LAYOUT> : gradients_of_gates<T, true> {
    __device__ __forceinline__ void finish(const grouped_rows &p, const job &j, float (&d)[128],
                                           int row, int rows)
    {
        this->finish_paired(p, j, d, row, rows);
    }
};

#endif
#endif
