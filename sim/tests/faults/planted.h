/* planted.h - small kernels, each with one line that differs: with PLANTED defined it is wrong. The
 * line that the model must report is marked FAULT: kind, the earlier one that it clashes with
 * OTHER; faults.c reads the marks, and `blocks=` behind KERNEL.
 *
 * x and y are filled by the host, z is not; each is N floats.
 */
#ifndef PLANTED_H
#define PLANTED_H

#include "c_api/asc_simd.h"

enum { N = 16384, TILE = 256, BYTES = TILE * 4 };

#ifdef PLANTED
#define EITHER(planted, clean) planted
#define NEEDED(clean)
#else
#define EITHER(planted, clean) clean
#define NEEDED(clean) clean
#endif

#define KERNEL(name)                                                        \
    __attribute__((visibility("default"))) __global__ __vector__ void name( \
        __gm__ float *x, __gm__ float *y, __gm__ float *z)

/* The same on a cube core, and on a cube core with two vector cores; x is A and y is B, of
 * halves. */
#define KERNEL_CUBE(name)                                                 \
    __attribute__((visibility("default"))) __global__ __cube__ void name( \
        __gm__ float *x, __gm__ float *y, __gm__ float *z)
#define KERNEL_MIX(name)                                                       \
    __attribute__((visibility("default"))) __global__ __mix__(1, 2) void name( \
        __gm__ float *x, __gm__ float *y, __gm__ float *z)

/* UB as tiles of TILE floats. */
#define UB(T, offset) ((__ubuf__ T *)asc_get_phy_buf_addr(offset))
#define A UB(float, 0)
#define B UB(float, BYTES)
#define C UB(float, 2 * BYTES)

#endif
