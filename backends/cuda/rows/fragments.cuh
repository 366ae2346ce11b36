/* fragments.cuh - pieces of matrices of 16-bit elements in the registers of a warp, and products of
 * them on tensor cores. Lane l has of a piece of 8 x 8 the elements 2 (l % 4) and the next one, of
 * row l / 4. */
#ifndef CUDA_FRAGMENTS_CUH
#define CUDA_FRAGMENTS_CUH

#include "chunk.cuh"

/* Four pieces from shared memory: lane l gives the address of row l % 8 of piece l / 8. */
__device__ __forceinline__ void load_fragments(uint32_t (&x)[4], uint32_t address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(address));
}

/* The same, rows and columns of each piece exchanged. */
__device__ __forceinline__ void load_transposed(uint32_t (&x)[4], uint32_t address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(address));
}

/* d += a b, 16 x 16 by 16 x 8 elements. Pieces of a: above, below, and the same of the next 8
 * columns; of b: its first 8 rows, the others, a lane's elements in a column. A lane has d[0], d[1]
 * above and d[2], d[3] below. */
template <class T>
__device__ __forceinline__ void multiply_16(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2,
                                            uint32_t a3, uint32_t b0, uint32_t b1)
{
#define MULTIPLY(TYPE)                                                             \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." TYPE "." TYPE ".f32 "    \
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                  \
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1))
    if constexpr (std::is_same<T, bf16>::value)
        MULTIPLY("bf16");
    else
        MULTIPLY("f16");
#undef MULTIPLY
}

template <class T>
__device__ __forceinline__ void multiply_16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                            uint32_t b1)
{
    multiply_16<T>(d, a[0], a[1], a[2], a[3], b0, b1);
}

#endif
