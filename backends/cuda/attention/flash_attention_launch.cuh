/* flash_attention_launch.cuh - launches of kernels that compute with tiles. */
#ifndef CUDA_FLASH_ATTENTION_LAUNCH_CUH
#define CUDA_FLASH_ATTENTION_LAUNCH_CUH

#include "flash_attention_sequences.cuh"

/* run(D) with the width that keys and values of a head are padded to. */
template <class F> static inline void by_width(const flash_problem &p, F run)
{
    const int64_t most = p.d > p.e ? p.d : p.e;
    if (most <= 64)
        run(number<64>());
    else if (most <= 128)
        run(number<128>());
    else
        run(number<256>());
}

/* Blocks of C::ROWS rows of all heads. */
template <class C, class K>
static inline void launch_flash(K kernel, const flash_problem &p, cudaStream_t stream, int rows,
                                int heads)
{
    const int64_t blocks = (int64_t)flash_tiles(p, rows, C::ROWS) * heads * p.batches;
    if (blocks == 0)
        return;
    cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         C::BYTES);
    kernel<<<(unsigned)blocks, C::THREADS, C::BYTES, stream>>>(p);
}

#endif
