/* tensor_map.h - a tensor as Hopper's copy engine (TMA) is told of it. For C and C++. */
#ifndef CUDA_TENSOR_MAP_H
#define CUDA_TENSOR_MAP_H

#include <cuda.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* 1 if the driver can make them. */
int cuda_has_tensor_maps(void);

/* The map of `lines` lines of `width` elements of a tg_type, `stride` bytes apart, for tiles of
 * box_lines lines of 128 bytes, which are swizzled in shared memory. data and stride are multiples
 * of 16. Returns 0 if the driver has no such maps or does not take it. */
int cuda_tensor_map(CUtensorMap *map, int type, const void *data, int64_t lines, int64_t width,
                    int64_t stride, int box_lines);

/* The same of several matrices, `step` bytes apart. */
int cuda_batch_tensor_map(CUtensorMap *map, int type, const void *data, int64_t matrices,
                          int64_t step, int64_t lines, int64_t width, int64_t stride,
                          int box_lines);

/* A tensor of four dimensions, the contiguous one first, in boxes of 128 bytes a row, which lie in
 * shared memory with chunk c of 16 bytes of row r at place c ^ (r % 8); strides in bytes, of the
 * second dimension on. 0 if the engine cannot read it. */
int cuda_make_tensor_map(CUtensorMap *map, int type, void *data, const int64_t *sizes,
                         const int64_t *strides, const int *box);

#ifdef __cplusplus
}
#endif
#endif
