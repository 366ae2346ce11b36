/* gemm_cut.h - how a product is cut into tiles for the cube cores. */
#ifndef GEMM_CUT_H
#define GEMM_CUT_H

#include "ascend.h"
#include "kernels/products/gemm.args.h"

typedef struct gemm_product {
    int64_t m, n, k, count; /* so many products of these sizes */
    int64_t size;           /* bytes of an element of a and b */
    int a_turned, b_turned, out_bytes, cores;
    int finish, whole; /* c is made by a second launch; no core's part is of a part of k */
} gemm_product;

/* splits: of k, each of `share` steps; packet: steps that come to L1 at a time. */
typedef struct gemm_cut {
    int64_t tile_m, tile_n, share, splits, packet;
} gemm_cut;

/* The cut that takes the least time. */
gemm_cut ascend_gemm_cut(const gemm_product *p);

/* Cycles of a core, as they are reckoned. */
double ascend_gemm_cycles(const gemm_product *p, const gemm_cut *c);

/* Rows of tiles that are gone through together: what the cores read at a time is about square. */
int64_t ascend_gemm_band(const gemm_product *p, const gemm_cut *c);

/* Tiles of the result, and those parts of k that each is a sum of. */
int64_t ascend_gemm_units(const gemm_product *p, const gemm_cut *c);

#endif
