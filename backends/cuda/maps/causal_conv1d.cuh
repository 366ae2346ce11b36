// causal_conv1d.cuh - what both directions of causal_conv1d share: a thread's chunk of channels,
// the rows that it goes down, those to come, and the inputs that its sums read.
#ifndef CUDA_CAUSAL_CONV1D_CUH
#define CUDA_CAUSAL_CONV1D_CUH

#include "rows/logistic.cuh"
#include "rows/parts.cuh"
#include "rows/rows.cuh"

enum {
    CONV_THREADS = 128,
    CONV_AHEAD = 4,  /* rows that are on their way to registers while one is computed */
    CONV_RING = 8,   /* or to shared memory, where chunks are whole */
    CONV_LEAST = 16, /* rows of a run, at least */
    CONV_LONG = 64   /* tokens of a sequence, at least, where there is code for long ones */
};

struct conv_args {
    row_span x, in_gate, out_gate, out; /* out: y or dx */
    row_span dy, din_gate, dout_gate;   /* backward alone, as what follows */
    float *dweight, *dbias;             /* of each run, [n * width] and [n]; NULL: not asked for */
    vector_span weight, bias;
    const int64_t *segments;    /* of each row; NULL: one a sequence */
    int64_t rows, tokens, each; /* tokens of a sequence, rows of a run */
    int n, width, silu;

    /* Only the convolution of `taps` tokens is asked for, and perhaps silu. `alike`: of sequences
     * of any length, so that a token does not know which others are behind it. */
    bool is_plain(int taps, bool alike) const
    {
        return !in_gate.data && !out_gate.data && !din_gate.data && !dout_gate.data && !segments &&
               width == taps && (tokens >= CONV_LONG || alike);
    }
};

/* A row, and how many before it its sum reads. */
struct conv_row {
    int64_t row, token;
    int reach;

    static __device__ __forceinline__ bool joined(const conv_args &a, int64_t row)
    {
        return !a.segments || a.segments[row] == a.segments[row - 1];
    }
    static __device__ __forceinline__ conv_row at(const conv_args &a, int64_t row)
    {
        conv_row r = {row, row % a.tokens, 0};
        while (r.reach < a.width - 1 && r.reach < r.token && joined(a, row - r.reach))
            r.reach++;
        return r;
    }
    __device__ __forceinline__ void step(const conv_args &a)
    {
        row++;
        token = token + 1 == a.tokens ? 0 : token + 1;
        reach = row < a.rows && token > 0 && joined(a, row) ? min(reach + 1, a.width - 1) : 0;
    }
};

/* A thread's chunk of channels, with what belongs to it: taps[back] is of the token so far back. */
template <class T, int K> struct conv_chunk {
    int j, left;
    float taps[K][V<T>], bias[V<T>];

    __device__ __forceinline__ void begin(const conv_args &a)
    {
        j = ((int)blockIdx.x * CONV_THREADS + (int)threadIdx.x) * V<T>;
        left = a.n - j;
#pragma unroll
        for (int i = 0; i < V<T>; i++) {
            bias[i] = a.bias.data && i < left ? get<T>(a.bias, j + i) : 0;
#pragma unroll
            for (int back = 0; back < K; back++)
                taps[back][i] =
                    back < a.width && i < left
                        ? get<T>(a.weight, (int64_t)(j + i) * a.width + a.width - 1 - back)
                        : 0;
        }
    }
    __device__ __forceinline__ void read(const row_span &from, int64_t row, float (&x)[V<T>]) const
    {
        widen<T>(load(from.template row<T>(row) + j, left), x);
    }
    /* x times a row of a tensor that may be missing */
    __device__ __forceinline__ void times(const row_span &by, int64_t row, float (&x)[V<T>]) const
    {
        float factor[V<T>];
        if (!by.data)
            return;
        read(by, row, factor);
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            x[i] *= factor[i];
    }
    __device__ __forceinline__ void write(const row_span &to, int64_t row,
                                          const float (&x)[V<T>]) const
    {
        store(to.template row<T>(row) + j, left, narrow<T>(x));
    }
};

/* The inputs of a row and of those before it. */
template <class T, int K> struct conv_window {
    float u[K][V<T>];

    __device__ __forceinline__ void shift()
    {
#pragma unroll
        for (int back = K - 1; back > 0; back--)
#pragma unroll
            for (int i = 0; i < V<T>; i++)
                u[back][i] = u[back - 1][i];
    }
    /* What stands before row `at`. */
    __device__ __forceinline__ void begin(const conv_args &a, const conv_chunk<T, K> &c,
                                          const conv_row &at)
    {
#pragma unroll
        for (int back = 0; back < K - 1; back++)
            if (back < at.reach) {
                c.read(a.x, at.row - 1 - back, u[back]);
                c.times(a.in_gate, at.row - 1 - back, u[back]);
            }
    }
    /* The convolution at the row whose own input is u[0]. */
    __device__ __forceinline__ void sum(const conv_chunk<T, K> &c, int reach,
                                        float (&v)[V<T>]) const
    {
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            v[i] = c.bias[i];
#pragma unroll
        for (int back = K - 1; back >= 0; back--)
            if (back <= reach)
#pragma unroll
                for (int i = 0; i < V<T>; i++)
                    v[i] += c.taps[back][i] * u[back][i];
    }
};

/* Chunks of some tensors, which may be missing, of the next rows before `end`, on their way. A
 * thread alone reads what it has asked for. */
template <class T, int TENSORS> struct conv_ahead {
    static constexpr bool RING = element<T>::WHOLE;
    static constexpr int AHEAD = RING ? CONV_RING : CONV_AHEAD;
    row_span from[TENSORS];
    int64_t end;
    uint4 raw[RING ? 1 : TENSORS][CONV_AHEAD];
    uint4 *own; /* [CONV_RING, TENSORS, CONV_THREADS] */
    int slot;

    template <int K>
    __device__ __forceinline__ void begin(const conv_chunk<T, K> &c, uint4 *memory, int64_t row,
                                          int64_t last)
    {
        own = memory + threadIdx.x;
        slot = 0;
        end = last;
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            ask(c, row + k, k);
    }
    /* Those of `row`, which is the next one. */
    template <int K>
    __device__ __forceinline__ void take(const conv_chunk<T, K> &c, int64_t row,
                                         float (&x)[TENSORS][V<T>])
    {
        if constexpr (RING) {
            wait_for_batches<CONV_RING - 1>();
#pragma unroll
            for (int i = 0; i < TENSORS; i++)
                widen<T>(place(i), x[i]);
        } else {
#pragma unroll
            for (int i = 0; i < TENSORS; i++) {
                widen<T>(raw[i][0], x[i]);
#pragma unroll
                for (int k = 0; k < CONV_AHEAD - 1; k++)
                    raw[i][k] = raw[i][k + 1];
            }
        }
        ask(c, row + AHEAD, AHEAD - 1);
    }

  private:
    __device__ __forceinline__ uint4 &place(int tensor) const
    {
        return own[(slot * TENSORS + tensor) * CONV_THREADS];
    }
    template <int K>
    __device__ __forceinline__ void ask(const conv_chunk<T, K> &c, int64_t row, int k)
    {
#pragma unroll
        for (int i = 0; i < TENSORS; i++)
            if (from[i].data && row < end) {
                const T *const at = from[i].template row<T>(row) + c.j;
                if constexpr (RING)
                    copy_ahead(&place(i), at);
                else
                    raw[i][k] = load(at, c.left);
            }
        if constexpr (RING) {
            end_batch();
            slot = (slot + 1) % CONV_RING;
        }
    }
};

#endif
