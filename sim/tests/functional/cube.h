/* cube.h - what the cube core's kernels are asked to do. */
#ifndef FUNCTIONAL_CUBE_H
#define FUNCTIONAL_CUBE_H

#include <stdint.h>

enum { PRODUCT_HALF, PRODUCT_BF16, PRODUCT_FLOAT, PRODUCT_I8, PRODUCT_TYPES };

/* C [m][n] = op(A) op(B), one tile of L0: A stored [m][k] or, turned, [k][m]; B [k][n] or, turned,
 * [n][k]. */
typedef struct product {
    int32_t type, a_turned, b_turned;
    int32_t m, k, n;
    int32_t out;       /* 0: as accumulated; 1: half; 2: bf16; 3: bytes, scaled by 0.125 */
    int32_t image;     /* A comes by the 3D load */
    int32_t unit_flag; /* of the products and the copy out, instead of flags between M and FIX */
    int32_t twice;     /* the product is added to itself */
    int32_t bias;      /* a row of n is added by the bias table */
    int32_t relu, hf32;
} product;

#endif
