/* grouped_gates.cuh - what becomes of the sums of a gated layer's products (grouped_rows.cuh), on
 * GPUs of compute capability 9.0: the gate of the first, and its gradients from that of the second,
 * before they leave the multiprocessor. */
#ifndef CUDA_GROUPED_GATES_CUH
#define CUDA_GROUPED_GATES_CUH

#include "grouped_rows.cuh"
#include "rows/logistic.cuh"

#if HAS_WGMMA

/* Of columns in turn, 8 by 8, of two halves g and u: both, and silu(g) u. */
template <class T> struct results<T, GATES> {
    waiting_parts w;
    int column;

    __device__ __forceinline__ void start(const product_memory &m, int group)
    {
        w.start(m, group);
    }

    __device__ __forceinline__ void begin(const grouped_rows &, const job &, int, int)
    {
    }

    __device__ __forceinline__ void last(const grouped_rows &p)
    {
        turn(p, 0);
        turn(p, 1);
    }

    __device__ __forceinline__ void turn(const grouped_rows &p, int k)
    {
        if (w.waits && (k > 0 || p.c[1].data))
            w.send(p.c[1], column, p.c[2], column, k);
    }

    __device__ __forceinline__ void finish(const grouped_rows &p, const job &j, float (&d)[128],
                                           int row, int rows)
    {
        uint32_t gates[32];
        column = j.column * (TILE_N / 2);
#pragma unroll
        for (int i = 0; i < 32; i++) {
            const int g = i / 2 * 8 + i % 2 * 2, u = g + 4;
            float act[2];
#pragma unroll
            for (int l = 0; l < 2; l++)
                act[l] = d[g + l] * logistic_of(d[g + l]).value * d[u + l];
            gates[i] = narrow_pair<T>(d[g], d[g + 1]);
            w.pairs[i] = narrow_pair<T>(d[u], d[u + 1]);
            w.pairs[32 + i] = narrow_pair<T>(act[0], act[1]);
            /* one after the other: the sums' registers become free as the pairs need some */
            asm volatile("" : "+r"(gates[i]), "+r"(w.pairs[i]), "+r"(w.pairs[32 + i]));
        }
        if (p.c[0].data)
            send_rows(p.c[0], gates, row, rows, column, w.staged);
        w.row = row;
        w.rows = rows;
        w.waits = 1;
    }
};

/* The sums are da, the gradient of a slot's a = silu(g) u before its weight w: w da silu'(g) u and
 * w da silu(g), which are the gradients of g and u, w a, and the sum of da a over the tile's
 * columns. g and u come to where results leave from. */
template <class T> struct results<T, GATE_GRADIENTS> {
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
        return get<T>(p.weights, min(p.rows - 1, max((int64_t)0, slot)));
    }

    __device__ __forceinline__ void turn(const grouped_rows &, int)
    {
    }

    __device__ __forceinline__ void last(const grouped_rows &)
    {
    }

    /* 64 rows of 128 columns of a half. */
    __device__ __forceinline__ void take(const grouped_rows &p, int half, int row, int at,
                                         uint32_t (&pairs)[32])
    {
        group_barrier();
        if (threadIdx.x % GROUP == 0) {
            wait_for_stores_to_read();
            arrive_and_expect(came, STAGED);
#pragma unroll
            for (int i = 0; i < 2; i++)
                load_tile(staged + i * BLOCK, &p.pre[half], at + 64 * i, row, came);
        }
        wait_barrier(came, phase);
        phase ^= 1;
        take_part(pairs, staged);
    }

    __device__ __forceinline__ void gate(float da, float g, float u, float w, float &sum,
                                         float (&out)[3])
    {
        const logistic s = logistic_of(g);
        const float silu = g * s.value, a = silu * u, scaled = w * da;
        sum += da * a;
        out[0] = scaled * u * (s.value + silu * s.rest);
        out[1] = scaled * silu;
        out[2] = w * a;
    }

    __device__ __forceinline__ void finish(const grouped_rows &p, const job &j, float (&d)[128],
                                           int row, int rows)
    {
        float sums[2] = {};
#pragma unroll
        for (int part = 0; part < 2; part++) {
            const int at = column + 128 * part;
            uint32_t g[32], u[32], a[32];
            take(p, 0, row, at, g);
            take(p, 1, row, at, u);
#pragma unroll
            for (int i = 0; i < 32; i++) {
                const float2 gs = widen_pair<T>(g[i]), us = widen_pair<T>(u[i]);
                const float *const da = d + 64 * part + 2 * i;
                float low[3], high[3];
                gate(da[0], gs.x, us.x, weight[i % 2], sums[i % 2], low);
                gate(da[1], gs.y, us.y, weight[i % 2], sums[i % 2], high);
                g[i] = narrow_pair<T>(low[0], high[0]);
                u[i] = narrow_pair<T>(low[1], high[1]);
                a[i] = narrow_pair<T>(low[2], high[2]);
                /* one after the other, as many registers */
                asm volatile("" : "+r"(g[i]), "+r"(u[i]), "+r"(a[i]));
            }
            send_rows(p.c[0], g, row, rows, at, staged);
            send_rows(p.c[1], u, row, rows, at, staged);
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

#endif
#endif
