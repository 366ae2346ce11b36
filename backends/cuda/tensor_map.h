/* tensor_map.h - matrices as the copies of tiles see them. */
#ifndef CUDA_TENSOR_MAP_H
#define CUDA_TENSOR_MAP_H

#include <cuda.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The map of `lines` lines of `width` elements of a tg_type, `stride` bytes apart, for tiles of box_lines lines of 128 bytes, which are
 * swizzled in shared memory. data and stride are multiples of 16. Returns 0 if the driver has no such maps or does not take it. */
int cuda_tensor_map(CUtensorMap *map, int type, const void *data, int64_t lines, int64_t width,
                    int64_t stride, int box_lines);

#ifdef __cplusplus
}
#endif
#endif
