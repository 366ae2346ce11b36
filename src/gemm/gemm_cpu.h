/* What the units of the portable gemm share: sizes, a product and its step; see gemm_cpu.c. */
#ifndef TG_GEMM_CPU_H
#define TG_GEMM_CPU_H

#include "gemm_matrix.h"
#include "rows/level.h"
#include "simd/register_tile.h"

#define gemm_pack_a TG_AT_LEVEL(gemm_pack_a)
#define gemm_pack_b TG_AT_LEVEL(gemm_pack_b)

enum {
    KB = 512,
    BLOCK_ROWS = 560 / MR * MR,
    BLOCKS = 2, /* blocks of rows in a step: bounds the workspace */
    NB = 2048,
    MB = BLOCKS * BLOCK_ROWS,
    PACK_WORK = 32 << 10, /* elements of a that are worth a task */
    TILE_WORK = 1 << 20,  /* multiplications that are worth a task */
    MANY_TASKS = 64,      /* from so many on, tasks of four panels */
    LINE = 64,            /* bytes of a cache line */
    AHEAD = 16,           /* terms between two prefetches */
};

typedef struct product {
    gemm_product whole;
    int64_t most_mb, most_nb, most_kb; /* of a step */
    float *sums;     /* f32 results of a step while c is of 16 bits and k needs several steps */
    float *packed_a; /* all panels of the step */
    float *packed_b; /* two panels a worker */
    /* the step: results [i0, i0 + mb) x [j0, j0 + nb), terms [p0, p0 + kb) */
    int64_t i0, j0, p0, mb, nb, kb;
} product;

/* Floats of a packed panel; one of a leaves room for the vector that runs past its last term. */
static inline int64_t panel_a(const product *g)
{
    return g->kb * MR + VL;
}

static inline int64_t panel_b(const product *g)
{
    return g->kb * NR;
}

/* A packed panel has element (lane w, term p) at p * width + w, zero for lanes that are none. */

/* Panels [begin, end) of the step's part of a: arg is its product. */
void gemm_pack_a(void *arg, int64_t begin, int64_t end, int worker);

/* Terms [p, p + terms) of the panel of b at column j. */
void gemm_pack_b(const product *g, int64_t j, int64_t p, int64_t terms, float *out);

#endif
