/* grouped_gates.cuh - the gate on the sums of a gated layer's first product (grouped_rows.cuh),
 * before they leave the multiprocessor, on GPUs of compute capability 9.0. */
#ifndef CUDA_GROUPED_GATES_CUH
#define CUDA_GROUPED_GATES_CUH

#include "grouped_rows.cuh"
#include "rows/logistic.cuh"

#if HAS_WGMMA

/* Parts on their way out while the next tile is multiplied: the second half of g and u, lines of
 * each or PAIRED both as neighbours, and act. */
template <bool PAIRED> struct gates_out {
    waiting_parts w;
    int column; /* of act */

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

    /* 64 columns of g and u: the first ones, or those behind them. */
    __device__ __forceinline__ void send(const grouped_rows &p, const uint32_t *both, int row,
                                         int rows, int behind)
    {
        if (!p.c[0].data)
            return;
        if (PAIRED)
            send_rows(p.c[0], both, row, rows, 2 * (column + behind), w.staged);
        else
            send_lines({{p.c[0], column + behind}, {p.c[1], column + behind}}, both, row, rows,
                       w.staged);
    }

    __device__ __forceinline__ void turn(const grouped_rows &p, int k)
    {
        if (!w.waits)
            return;
        if (k == 0)
            send(p, w.pairs, w.row, w.rows, 64);
        if (k == 1) {
            send_rows(p.c[2], w.pairs + 32, w.row, w.rows, column, w.staged);
            w.waits = 0;
        }
    }

    __device__ __forceinline__ void wait_for(int row, int rows)
    {
        w.row = row;
        w.rows = rows;
        w.waits = 1;
    }
};

/* Of columns in turn of two halves g and u: both, and act = gate(g, u, column); gate() may change
 * them. */
template <class T, int LAYOUT, class GATE>
__device__ __forceinline__ void finish_halves(gates_out<false> &out, const grouped_rows &p,
                                              const job &j, float (&d)[128], int row, int rows,
                                              const GATE &gate)
{
    uint32_t first[32];
    out.column = j.column * (TILE_N / 2);
#pragma unroll
    for (int i = 0; i < 32; i++) {
        const int eight = i / 2; /* columns of act */
        const int g = LAYOUT == B_HALVES ? eight * 8 + i % 2 * 2
                                         : (eight / 8 * 16 + eight % 8) * 4 + i % 2 * 2,
                  u = g + (LAYOUT == B_HALVES ? 4 : 32);
        uint32_t *const both = i < 16 ? first : out.w.pairs, &own = out.w.pairs[32 + i];
        float act[2];
#pragma unroll
        for (int l = 0; l < 2; l++)
            act[l] = gate(d[g + l], d[u + l], out.column + 8 * eight + lane_column() + l);
        both[i % 16] = narrow_pair<T>(d[g], d[g + 1]);
        both[16 + i % 16] = narrow_pair<T>(d[u], d[u + 1]);
        own = narrow_pair<T>(act[0], act[1]);
        /* one after the other: the sums' registers become free as the pairs need some */
        asm volatile("" : "+r"(both[i % 16]), "+r"(both[16 + i % 16]), "+r"(own));
        if (i == 15)
            out.send(p, first, row, rows, 0);
    }
    out.wait_for(row, rows);
}

/* silu(g) u of halves, without options. */
template <class T, int LAYOUT> struct results<T, GATES, LAYOUT> : gates_out<false> {
    __device__ __forceinline__ void finish(const grouped_rows &p, const job &j, float (&d)[128],
                                           int row, int rows)
    {
        finish_halves<T, LAYOUT>(*this, p, j, d, row, rows, [](float &g, float &u, int) {
            return g * logistic_of(g).value * u;
        });
    }
};

/* Neighbours of 16 bits, columns 2 l and 2 l + 1 of 8 for lane l of 4, of what the lanes have:
 * column l in the low half, 4 + l in the high one. */
__device__ __forceinline__ uint32_t neighbours(uint32_t own)
{
    const int lane = (int)threadIdx.x % 32, from = lane / 4 * 4 + lane % 2 * 2;
    const uint32_t left = __shfl_sync(~0u, own, from), right = __shfl_sync(~0u, own, from + 1);
    return __byte_perm(left, right, lane % 4 / 2 ? 0x7632 : 0x5410);
}

/* Of columns g and u that are neighbours: both, and act. */
template <class T, class GATE>
__device__ __forceinline__ void finish_paired(gates_out<true> &out, const grouped_rows &p,
                                              const job &j, float (&d)[128], int row, int rows,
                                              const GATE &gate)
{
    uint32_t first[32];
    out.column = j.column * (TILE_N / 2);
#pragma unroll
    for (int eight = 0; eight < 16; eight++) {
        float act[2][2];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int n = 2 * eight + i / 2, below = i % 2;
            float *const pair = d + 4 * n + 2 * below;
            act[below][i / 2] = gate(pair[0], pair[1], out.column + 4 * n + (int)threadIdx.x % 4);
            uint32_t *const to = n < 16 ? first : out.w.pairs;
            to[n % 16 * 2 + below] = narrow_pair<T>(pair[0], pair[1]);
        }
#pragma unroll
        for (int below = 0; below < 2; below++)
            out.w.pairs[32 + 2 * eight + below] =
                neighbours(narrow_pair<T>(act[below][0], act[below][1]));
        if (eight == 7)
            out.send(p, first, row, rows, 0);
    }
    out.wait_for(row, rows);
}

/* Any gate, with or without a bias. */
template <class T, int LAYOUT>
struct results<T, ANY_GATES, LAYOUT> : gates_out<!HAS_HALVES<LAYOUT>> {
    __device__ __forceinline__ void finish(const grouped_rows &p, const job &j, float (&d)[128],
                                           int row, int rows)
    {
        const auto gate = [&](float &g, float &u, int column) {
            if (p.bias.data) {
                g += bias_of<T>(p, j, p.gate.gate_at(column));
                u += bias_of<T>(p, j, p.gate.up_at(column));
            }
            return gated_of(p.gate, g, u).value;
        };
        if constexpr (HAS_HALVES<LAYOUT>)
            finish_halves<T, LAYOUT>(*this, p, j, d, row, rows, gate);
        else
            finish_paired<T>(*this, p, j, d, row, rows, gate);
    }
};

#endif
#endif
