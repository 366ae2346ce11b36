/* gemm.args.h - what the kernel of gemm is given; see asc_args.h. */
#ifndef GEMM_ARGS_H
#define GEMM_ARGS_H

#include "shared/asc_any.args.h"
#include "shared/asc_args.h"

/* A step along k is as many elements as lie in so many bytes. GEMM_L0: bytes of either half of L0A,
 * and of L0B, of which a step fills at most one. */
enum { GEMM_STEP_BYTES = 128, GEMM_L0 = 32768, GEMM_L0C = 131072, GEMM_L1 = 524288 - 256 };

/* Packets of both operands that L1 holds: one is multiplied, the others are there already or come.
 * Against two, products of few rows take up to a tenth less, large ones the same. */
enum { GEMM_PACKETS = 3 };

/* c [m, n] = a b; a [m, k], or stored [k, m] if a_turned, b [k, n], or stored [n, k] if b_turned.
 * With `splits` each split makes the products of k_share elements of k, and its results lie c_split
 * elements behind those of the split before. add: to what c, f32, holds. A core makes tiles of
 * tile_m x tile_n; `packet` elements of k come to L1 at a time, and consecutive tiles go down
 * `band` rows of tiles. There are `products` of such matrices, each `inner` of which lie _inner
 * elements apart; the first ones of these, _outer elements. */
#define GEMM(X) GEMM_OF(X, ASC_T)
#define GEMM_F32(X) GEMM_OF(X, float)
#define GEMM_OF(X, type) \
    X(TENSOR, a, type)   \
    X(TENSOR, b, type)   \
    X(MEMORY, c, void)   \
    X(I64, c_stride)     \
    X(I64, c_split)      \
    X(I64, c_type)       \
    X(I64, m)            \
    X(I64, n)            \
    X(I64, k)            \
    X(I64, a_turned)     \
    X(I64, b_turned)     \
    X(I64, add)          \
    X(I64, tile_m)       \
    X(I64, tile_n)       \
    X(I64, k_share)      \
    X(I64, splits)       \
    X(I64, packet)       \
    X(I64, band)         \
    X(I64, products)     \
    X(I64, inner)        \
    X(I64, a_inner)      \
    X(I64, a_outer)      \
    X(I64, b_inner)      \
    X(I64, b_outer)      \
    X(I64, c_inner)      \
    X(I64, c_outer)

#endif
