/* multiply_e4m3.cuh - products of E4M3 by four warps of a GPU of compute capability 9.0. */
#ifndef CUDA_MULTIPLY_E4M3_CUH
#define CUDA_MULTIPLY_E4M3_CUH

#include "rows/hopper.cuh"

#if HAS_WGMMA

#define NUMBERS_8(d, i)                                                                         \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
        "+f"(d[i + 6]), "+f"(d[i + 7])
#define NUMBERS_32(d, i) \
    NUMBERS_8(d, i), NUMBERS_8(d, i + 8), NUMBERS_8(d, i + 16), NUMBERS_8(d, i + 24)

/* d = a b, or with `add` d += a b: 64 x 32 by 32 x 128 elements, given by descriptors of their
 * place in shared memory, k contiguous. The instruction adds up in fewer bits than f32 has. */
__device__ __forceinline__ void multiply_e4m3(float (&d)[64], uint64_t a, uint64_t b, int add)
{
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "setp.ne.b32 p, %66, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, "
                 "%31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, "
                 "%46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, "
                 "%61, %62, %63}, "
                 "%64, %65, p, 1, 1;\n"
                 "}"
                 : NUMBERS_32(d, 0), NUMBERS_32(d, 32)
                 : "l"(a), "l"(b), "r"(add));
}

#undef NUMBERS_32
#undef NUMBERS_8

#endif
#endif
