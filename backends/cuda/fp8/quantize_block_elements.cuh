/* quantize_block_elements.cuh - a tile of 128 x 128 elements in the registers of a block of
 * threads, its largest elements, and scales made of them.
 *
 * A thread has, of 4 rows below each other, 8 columns of the tile's left half and the same 8 of its
 * right half. So 8 lanes hold a row, and 4 bytes of the transpose come from one thread. Magnitudes
 * are compared as bits, where a NaN is larger than any number. */
#ifndef CUDA_QUANTIZE_BLOCK_ELEMENTS_CUH
#define CUDA_QUANTIZE_BLOCK_ELEMENTS_CUH

#include "rows/elements.cuh"

enum {
    BLOCK_EDGE = 128, /* rows and columns that share a scale, of those that do */
    QUANTIZE_THREADS = 256,
    QUANTIZE_WARPS = QUANTIZE_THREADS / 32,
    ROW_LANES = 8, /* threads of a row */
    OWN_ROWS = 4,  /* rows of a thread */
    OWN = 8,       /* neighbouring columns of a thread, twice */
    HALF = 64      /* columns from the one to the other */
};

/* q and its scales, `scale_stride` apart from one block of columns to the next; q NULL: absent. */
struct quantized {
    uint8_t *q;
    float *scale;
    int64_t stride, scale_stride;
};

struct quantize_block_problem {
    row_span x;
    quantized plain, turned; /* turned: of the transpose */
    int64_t rows, columns, tiles_across;
    float least; /* the largest magnitude of a block counts as this at least */
    int power_of_two;
};

/* ---- magnitudes, as bits ---- */

/* The larger of two f32 without sign, or of two pairs of 16-bit elements. */
template <class T> __device__ __forceinline__ uint32_t larger_bits(uint32_t a, uint32_t b)
{
    return sizeof(T) == 4 ? max(a, b) : __vmaxu2(a, b);
}

template <class T> constexpr uint32_t WITHOUT_SIGN = sizeof(T) == 4 ? 0x7fffffff : 0x7fff7fff;

template <class T> __device__ __forceinline__ float number_of(uint32_t bits)
{
    if (sizeof(T) == 4)
        return __uint_as_float(bits);
    return std::is_same<T, bf16>::value ? __uint_as_float(bits << 16)
                                        : __half2float(__ushort_as_half((uint16_t)bits));
}

/* The scale of a block, whose reciprocal the block is multiplied with. */
__device__ __forceinline__ float scale_of(const quantize_block_problem &p, float largest)
{
    largest = largest < p.least ? p.least : largest; /* a NaN stays */
    if (largest == 0)
        return 1;
    float scale = __fdiv_rn(largest, 448.0f);
    scale = scale < 0x1p-126f ? 0x1p-126f : scale;
    const uint32_t bits = __float_as_uint(scale);
    if (p.power_of_two && (bits & 0x7fffff) && bits < 0x7f800000)
        scale = __uint_as_float((bits & 0x7f800000) + 0x800000);
    return scale;
}

/* ---- a thread's elements ---- */

template <class T> struct own_elements {
    typedef typename element<T>::type E;
    static constexpr int WORDS = OWN * (int)sizeof(E) / 4; /* of 8 neighbouring elements */
    uint32_t word[OWN_ROWS][2][WORDS];

    __device__ __forceinline__ void load_all(const quantize_block_problem &p, int64_t row,
                                             int64_t column)
    {
        load_by(p, row, column,
                [&](int64_t r, int64_t at) { return load(p.x.row<T>(r) + at, p.columns - at); });
    }

    /* chunk(r, at): the chunk of row r that begins at column `at`, 0 beyond the row. */
    template <class CHUNK>
    __device__ __forceinline__ void load_by(const quantize_block_problem &p, int64_t row,
                                            int64_t column, const CHUNK &chunk)
    {
#pragma unroll
        for (int i = 0; i < OWN_ROWS; i++)
#pragma unroll
            for (int h = 0; h < 2; h++)
#pragma unroll
                for (int w = 0; w < WORDS; w += 4) {
                    const int64_t at = column + h * HALF + w * (OWN / WORDS);
                    uint4 v = make_uint4(0, 0, 0, 0);
                    if (row + i < p.rows && at < p.columns)
                        v = chunk(row + i, at);
                    word[i][h][w] = v.x;
                    word[i][h][w + 1] = v.y;
                    word[i][h][w + 2] = v.z;
                    word[i][h][w + 3] = v.w;
                }
    }

    __device__ __forceinline__ float at(int i, int h, int j) const
    {
        const uint32_t w = word[i][h][j * WORDS / OWN];
        if (sizeof(E) == 4)
            return __uint_as_float(w);
        if (std::is_same<E, bf16>::value)
            return __uint_as_float(j % 2 ? w & 0xffff0000 : w << 16);
        return __half2float(__ushort_as_half((uint16_t)(j % 2 ? w >> 16 : w)));
    }
};

/* The largest of each row of the thread's, known to the lanes of the row. */
template <class T>
__device__ __forceinline__ void largest_of_rows(const own_elements<T> &x,
                                                uint32_t (&most)[OWN_ROWS])
{
    typedef typename element<T>::type E;
#pragma unroll
    for (int i = 0; i < OWN_ROWS; i++) {
        most[i] = 0;
#pragma unroll
        for (int h = 0; h < 2; h++)
#pragma unroll
            for (int w = 0; w < x.WORDS; w++)
                most[i] = larger_bits<E>(most[i], x.word[i][h][w] & WITHOUT_SIGN<E>);
        if (sizeof(E) == 2)
            most[i] = max(most[i] & 0xffff, most[i] >> 16);
    }
    if (sizeof(E) == 2) { /* two rows at once */
#pragma unroll
        for (int i = 0; i < OWN_ROWS; i += 2) {
            uint32_t both = most[i] | most[i + 1] << 16;
#pragma unroll
            for (int lane = 1; lane < ROW_LANES; lane *= 2)
                both = larger_bits<E>(both, __shfl_xor_sync(~0u, both, lane));
            most[i] = both & 0xffff;
            most[i + 1] = both >> 16;
        }
    } else {
#pragma unroll
        for (int i = 0; i < OWN_ROWS; i++)
#pragma unroll
            for (int lane = 1; lane < ROW_LANES; lane *= 2)
                most[i] = max(most[i], __shfl_xor_sync(~0u, most[i], lane));
    }
}

/* The largest of each column of the warp's 16 rows goes to `most`, in the elements' width. */
template <class T>
__device__ __forceinline__ void largest_of_columns(const own_elements<T> &x, char *most)
{
    typedef typename element<T>::type E;
    const int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int w = 0; w < x.WORDS; w += 4) {
            uint32_t m[4];
#pragma unroll
            for (int k = 0; k < 4; k++) {
                m[k] = 0;
#pragma unroll
                for (int i = 0; i < OWN_ROWS; i++)
                    m[k] = larger_bits<E>(m[k], x.word[i][h][w + k] & WITHOUT_SIGN<E>);
                m[k] = larger_bits<E>(m[k], __shfl_xor_sync(~0u, m[k], 8));
                m[k] = larger_bits<E>(m[k], __shfl_xor_sync(~0u, m[k], 16));
            }
            if (lane < ROW_LANES)
                *(uint4 *)(most + (h * HALF + lane * OWN) * sizeof(E) + w * 4) =
                    make_uint4(m[0], m[1], m[2], m[3]);
        }
}

#endif
