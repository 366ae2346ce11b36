/* matmul.h - what matmul() and matmul_gelu() are asked to do. */
#ifndef EXAMPLES_MATMUL_H
#define EXAMPLES_MATMUL_H

#include <stdint.h>

/* C [m][n] = A [m][k] B^T, B stored [n][k], of halves. k: a multiple of 64. */
typedef struct matmul_how {
    uint32_t m, n, k;
    uint32_t columns;            /* of cores; the rest of them are rows */
    uint32_t share_m, share_n;   /* of C a core, less at its ends */
    uint32_t tile_m, tile_n;     /* of L0C: at most 128 x 256 */
    uint32_t packet_a, packet_b; /* steps of 64 k that come to L1 at a time */
    uint32_t sets;               /* of packets in L1: 1, or 2, which overlaps copies and loads */
    uint32_t bands; /* of a core's share, one after the other, so that L2 holds their part of A */
    uint32_t unit_flag; /* between mmad and the copy out, instead of flags of pipes */
    uint32_t floats;    /* C is of floats */
} matmul_how;

#endif
