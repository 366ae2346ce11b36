// causal_conv1d_plain.cuh - the convolution alone, with or without silu: of K tokens, whole chunks,
// without gates or segments. Rows that are not among the first of their sequence, nearly all, have
// code without questions.
#ifndef CUDA_CAUSAL_CONV1D_PLAIN_CUH
#define CUDA_CAUSAL_CONV1D_PLAIN_CUH

#include "causal_conv1d_sums.cuh"

/* Rows of a run that are of one sequence, which begins and ends there. */
struct conv_part {
    int64_t first, end, begins, ends;
};

/* run(part) for each of them. */
template <class RUN>
__device__ __forceinline__ static void each_part(const conv_args &a, const RUN &run)
{
    const int64_t end = min((blockIdx.y + 1) * a.each, a.rows);
    conv_part p = {blockIdx.y * a.each, 0, 0, 0};
    for (; p.first < end; p.first = p.end) {
        p.begins = p.first - p.first % a.tokens;
        p.ends = p.begins + a.tokens;
        p.end = min(end, p.ends);
        run(p);
    }
}

/* Chunks of the rows to come, of TENSORS tensors, on their way to shared memory. */
template <class T, int TENSORS> struct conv_stream {
    const char *from[TENSORS];
    int64_t stride[TENSORS], left; /* left: rows that have not been asked for */
    uint4 *own;
    int slot;

    __device__ __forceinline__ void begin(const row_span (&tensors)[TENSORS], int j, int64_t row,
                                          int64_t end, uint4 *memory)
    {
        own = memory + threadIdx.x;
        slot = 0;
        left = end - row;
#pragma unroll
        for (int i = 0; i < TENSORS; i++) {
            from[i] = (const char *)(tensors[i].template row<T>(row) + j);
            stride[i] = tensors[i].stride;
        }
#pragma unroll
        for (int k = 0; k < CONV_RING; k++)
            ask();
    }
    __device__ __forceinline__ void take(float (&x)[TENSORS][V<T>])
    {
        wait_for_batches<CONV_RING - 1>();
#pragma unroll
        for (int i = 0; i < TENSORS; i++)
            widen<T>(own[(slot * TENSORS + i) * CONV_THREADS], x[i]);
        ask();
    }

  private:
    __device__ __forceinline__ void ask()
    {
        if (left > 0)
#pragma unroll
            for (int i = 0; i < TENSORS; i++) {
                copy_ahead(&own[(slot * TENSORS + i) * CONV_THREADS], from[i]);
                from[i] += stride[i];
            }
        left--;
        end_batch();
        slot = (slot + 1) % CONV_RING;
    }
};

/* The window before the part's first row. */
template <class T, int K>
__device__ __forceinline__ static void begin_window(const conv_args &a, const conv_chunk<T, K> &c,
                                                    const conv_part &p, conv_window<T, K> &window)
{
#pragma unroll
    for (int back = 0; back < K - 1; back++) {
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            window.u[back][i] = 0;
        if (p.first - 1 - back >= p.begins)
            c.read(a.x, p.first - 1 - back, window.u[back]);
    }
}

template <class T, int K, bool SILU>
__global__ void __launch_bounds__(CONV_THREADS, 5)
    conv_plain_forward_kernel(const __grid_constant__ conv_args a)
{
    __shared__ uint4 memory[CONV_RING * CONV_THREADS];
    conv_chunk<T, K> c;
    c.begin(a);
    if (c.left <= 0)
        return;
    each_part(a, [&](const conv_part &p) {
        conv_window<T, K> window;
        conv_stream<T, 1> ahead;
        const row_span tensors[] = {a.x};
        char *to = (char *)(a.out.row<T>(p.first) + c.j);
        begin_window(a, c, p, window);
        ahead.begin(tensors, c.j, p.first, p.end, memory);
        const auto step = [&](int reach) {
            float y[V<T>], x[1][V<T>];
            window.shift();
            ahead.take(x);
#pragma unroll
            for (int i = 0; i < V<T>; i++)
                window.u[0][i] = x[0][i];
            window.sum(c, reach, y);
#pragma unroll
            for (int i = 0; i < V<T> && SILU; i++)
                y[i] *= quick_logistic_of(y[i]).value;
            *(uint4 *)to = narrow<T>(y);
            to += a.out.stride;
        };
        int64_t r = p.first;
        for (; r < min(p.end, p.begins + K - 1); r++)
            step((int)(r - p.begins));
#pragma unroll 4
        for (int left = (int)(p.end - r); left > 0; left--)
            step(K - 1);
    });
}

/* du.u[back]: the gradient, so far, of the input `back` rows before the one that is worked on. */
template <class T, int K, bool SILU>
__global__ void __launch_bounds__(CONV_THREADS, sizeof(T) == 2 ? 3 : 4)
    conv_plain_backward_kernel(const __grid_constant__ conv_args a)
{
    __shared__ uint4 memory[CONV_RING * 2 * CONV_THREADS];
    conv_chunk<T, K> c;
    conv_sums<T, K> sums = {};
    c.begin(a);
    if (c.left <= 0)
        return;
    each_part(a, [&](const conv_part &p) {
        conv_window<T, K> window, du = {};
        conv_stream<T, 2> ahead;
        const row_span tensors[] = {a.x, a.dy};
        const int64_t last = min(p.end + K - 1, p.ends);
        char *to = (char *)(a.out.row<T>(p.first) + c.j);
        begin_window(a, c, p, window);
        ahead.begin(tensors, c.j, p.first, last, memory);
        const auto put = [&](const float(&x)[V<T>]) {
            *(uint4 *)to = narrow<T>(x);
            to += a.out.stride;
        };
        /* whole: a row before this one has its gradient now */
        const auto step = [&](int reach, bool own, bool whole) {
            float v[V<T>], taken[2][V<T>];
            float(&dv)[V<T>] = taken[1];
            window.shift();
            du.shift();
            ahead.take(taken);
#pragma unroll
            for (int i = 0; i < V<T>; i++) {
                window.u[0][i] = taken[0][i];
                du.u[0][i] = 0;
            }
            if (SILU) {
                window.sum(c, reach, v);
#pragma unroll
                for (int i = 0; i < V<T>; i++) {
                    const logistic s = quick_logistic_of(v[i]);
                    dv[i] *= s.value * fmaf(v[i], s.rest, 1);
                }
            }
            if (own)
                sums.add(window, reach, dv);
#pragma unroll
            for (int back = 0; back < K; back++)
                if (back <= reach)
#pragma unroll
                    for (int i = 0; i < V<T>; i++)
                        du.u[back][i] += c.taps[back][i] * dv[i];
            if (whole)
                put(du.u[K - 1]);
        };
        int64_t r = p.first;
        for (; r < min(p.end, max(p.begins, p.first) + K - 1); r++)
            step((int)min(r - p.begins, (int64_t)(K - 1)), true, r - (K - 1) >= p.first);
#pragma unroll 4
        for (int left = (int)(p.end - r); left > 0; left--)
            step(K - 1, true, true);
        r = p.end;
        for (; r < last; r++)
            step((int)min(r - p.begins, (int64_t)(K - 1)), false, r - (K - 1) >= p.first);
        /* rows behind which the sequence ends */
        for (; r < p.end + K - 1; r++) {
            du.shift();
            if (r - (K - 1) >= p.first)
                put(du.u[K - 1]);
        }
    });
    sums.write(a, c.j);
}

#endif
