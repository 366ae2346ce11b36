/* block_scaled.cuh - matrices of E4M3 whose blocks have scales, as products see them. */
#ifndef CUDA_BLOCK_SCALED_CUH
#define CUDA_BLOCK_SCALED_CUH

#include "rows/elements.cuh"

/* Elements along k that share a scale. */
enum { SCALED_K = 128 };

/* Lines of k elements. One scale belongs to 1 << shift lines; those of the next block of k are
 * scale_stride further. */
struct block_scaled_operand {
    const uint8_t *data;
    int64_t stride, lines;
    const float *scale;
    int64_t scale_stride;
    int shift;
};

__device__ __forceinline__ float scale_at(const block_scaled_operand &o, int64_t line,
                                          int64_t block)
{
    return o.scale[block * o.scale_stride + (min(line, o.lines - 1) >> o.shift)];
}

static inline block_scaled_operand block_scaled_of(const tg_tensor *t, const tg_tensor *scale)
{
    const int shift = scale->shape[1] == t->shape[0] ? 0 : 7;
    const block_scaled_operand o = {(const uint8_t *)data_of(t),   stride_of(t),     t->shape[0],
                                    (const float *)data_of(scale), stride_of(scale), shift};
    return o;
}

#endif
