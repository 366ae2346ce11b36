/* fix.h - copies out of L0C that kernels are asked for. */
#ifndef FUNCTIONAL_FIX_H
#define FUNCTIONAL_FIX_H

#include <stdint.h>

enum { FIX_DEPTH = 32, FIX_PLANES = 3 };

/* A [m][32] B^T, B [n][32]: of halves (floats in L0C) or bytes (integers); out: 0 as it is, 1 half,
 * 2 bf16, 3 int8, 4 uint8; of integers, from which no copy makes uint8, int8. */
typedef struct fix {
    int32_t bytes, out, by_column; /* by_column: scales from the fixpipe buffer */
    int32_t m, n, rows, pitch;     /* rows: nz2nd; pitch: dst_stride */
    int32_t split, relu;
    int32_t planes, plane_rows, plane_pitch; /* matrices of plane_rows, of the m that are there */
    int32_t atomic;
    float scale, alpha;
} fix;

/* C [m][n2] = half(A [m][k] B^T) D^T by way of L1, D [n2][n]; D comes as fractals. */
typedef struct chain {
    int32_t m, n, n2;
    int32_t by_l1;
} chain;

#endif
