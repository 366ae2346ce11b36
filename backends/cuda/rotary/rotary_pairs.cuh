/* rotary_pairs.cuh - what is turned: where the pairs of a head's elements lie, and the angles of a
 * token's position. */
#ifndef CUDA_ROTARY_PAIRS_CUH
#define CUDA_ROTARY_PAIRS_CUH

#include "rows/mixed.cuh"

/* q with its result, or k. Strides of batch, position and head, in bytes. */
struct rotary_side {
    char *x, *y;
    int64_t x_stride[3], y_stride[3];
    int heads; /* 0: absent */
};

/* Angles: cos or sin, or both in turn. Strides in bytes; columns from section[0] on are in the next
 * plane, from section[1] on in the one behind it. */
struct rotary_table {
    char *data;
    int64_t batch, position, plane;
    int f32, section[2];
};

struct rotary_args {
    rotary_side side[2];
    rotary_table cos, sin; /* cos alone where both alternate in one table */
    int pairs, width;      /* of a row, which begins `start` elements before its first pair */
    int start;
    float direction; /* 1 forward, -1 backward */
};

/* ---- angles: cos and sin of N pairs of a token from pair j on, in tables of Y ---- */

__device__ __forceinline__ static const char *row_of(const rotary_table &t, int64_t b, int64_t s)
{
    return t.data + b * t.batch + s * t.position;
}

struct in_two_tables {
    template <class Y, int N>
    __device__ __forceinline__ static void load(const rotary_args &a, int64_t b, int64_t s, int j,
                                                int left, float (&c)[N], float (&t)[N])
    {
        const char *const cos = row_of(a.cos, b, s), *const sin = row_of(a.sin, b, s);
        const auto plane_of = [&](int pair) {
            return (pair >= a.cos.section[0]) + (pair >= a.cos.section[1]);
        };
        const int plane = plane_of(j);
        if (plane == plane_of(j + N - 1)) {
            load_as<Y>((const Y *)(cos + plane * a.cos.plane) + j, left, c);
            load_as<Y>((const Y *)(sin + plane * a.sin.plane) + j, left, t);
            return;
        }
#pragma unroll
        for (int i = 0; i < N; i++) {
            const int of = plane_of(j + i);
            c[i] = i < left ? get((const Y *)(cos + of * a.cos.plane) + j + i) : 0;
            t[i] = i < left ? get((const Y *)(sin + of * a.sin.plane) + j + i) : 0;
        }
    }
};

struct in_one_table {
    template <class Y, int N>
    __device__ __forceinline__ static void load(const rotary_args &a, int64_t b, int64_t s, int j,
                                                int left, float (&c)[N], float (&t)[N])
    {
        float both[2 * N];
        load_as<Y>((const Y *)row_of(a.cos, b, s) + 2 * j, 2 * left, both);
#pragma unroll
        for (int i = 0; i < N; i++) {
            c[i] = both[2 * i];
            t[i] = both[2 * i + 1];
        }
    }
};

/* ---- pairs ---- */

/* Where a head's row of x begins, or of y; the heads of k come behind those of q. */
struct head_rows {
    char *x, *y;
};

/* Where a token's rows lie. */
struct token_rows {
    head_rows first[2];
    const rotary_args &a;

    __device__ __forceinline__ token_rows(const rotary_args &args, int64_t b, int64_t s) : a(args)
    {
#pragma unroll
        for (int m = 0; m < 2; m++) {
            first[m].x = a.side[m].x + b * a.side[m].x_stride[0] + s * a.side[m].x_stride[1];
            first[m].y = a.side[m].y + b * a.side[m].y_stride[0] + s * a.side[m].y_stride[1];
        }
    }
    __device__ __forceinline__ head_rows of(int h) const
    {
        const bool k = h >= a.side[0].heads;
        const int64_t own = k ? h - a.side[0].heads : h;
        head_rows rows = k ? first[1] : first[0];
        rows.x += own * (k ? a.side[1].x_stride[2] : a.side[0].x_stride[2]);
        rows.y += own * (k ? a.side[1].y_stride[2] : a.side[0].y_stride[2]);
        return rows;
    }
};

/* Where the elements of pairs lie: half a row apart, or as neighbours. of<T, N>: N pairs of a row
 * from pair j on, as they come from memory. ELEMENTS: that lie side by side, of a pair. */
struct as_halves {
    enum { ELEMENTS = 1 };
    template <class T, int N> struct of {
        group_of<T, N> x, y;

        __device__ __forceinline__ void load(const T *row, int j, int pairs, int left)
        {
            x = load_group<T, N>(row + j, left);
            y = load_group<T, N>(row + j + pairs, left);
        }
        __device__ __forceinline__ void widen(float (&first)[N], float (&second)[N]) const
        {
            widen_group<T, N>(x, 0, first);
            widen_group<T, N>(y, 0, second);
        }
        static __device__ __forceinline__ void
        store(T *row, int j, int pairs, int left, const float (&first)[N], const float (&second)[N])
        {
            store_as<T>(row + j, left, first);
            store_as<T>(row + j + pairs, left, second);
        }
    };
};

struct as_neighbours {
    enum { ELEMENTS = 2 };
    template <class T, int N> struct of {
        group_of<T, 2 * N> both;

        __device__ __forceinline__ void load(const T *row, int j, int, int left)
        {
            both = load_group<T, 2 * N>(row + 2 * j, 2 * left);
        }
        __device__ __forceinline__ void widen(float (&first)[N], float (&second)[N]) const
        {
            float x[2 * N];
            widen_group<T, 2 * N>(both, 0, x);
#pragma unroll
            for (int i = 0; i < N; i++) {
                first[i] = x[2 * i];
                second[i] = x[2 * i + 1];
            }
        }
        static __device__ __forceinline__ void
        store(T *row, int j, int, int left, const float (&first)[N], const float (&second)[N])
        {
            float x[2 * N];
#pragma unroll
            for (int i = 0; i < N; i++) {
                x[2 * i] = first[i];
                x[2 * i + 1] = second[i];
            }
            store_as<T>(row + 2 * j, 2 * left, x);
        }
    };
};

#endif
