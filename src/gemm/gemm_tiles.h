/* What the units of gemm on matrix units share: sizes, a product and its step; see gemm_tiles.c. */
#ifndef TG_GEMM_TILES_H
#define TG_GEMM_TILES_H

#include "gemm_matrix.h"
#include "rows/level.h"
#include "tiles.h"

_Static_assert(TILES, "compiled for a processor with matrix units");

#define gemm_tiles_pack TG_AT_LEVEL(gemm_tiles_pack)
#define gemm_tiles_compute TG_AT_LEVEL(gemm_tiles_compute)

enum {
    SIDE = 16,            /* rows of a tile of a, columns of one of b */
    TERMS = 32,           /* of both */
    TILE = SIDE * TERMS,  /* elements */
    PANEL = 2 * SIDE,     /* rows of a, or columns of b, that are multiplied at once */
    UNIT = PANEL * TERMS, /* elements of a panel over the terms of a tile */
    SUMS = PANEL * PANEL, /* results of two panels */
    GROUP = 4,            /* panels that are packed at once */
    PART = 8,             /* of so many units */
    KS = 2048,            /* 1 MiB of a or b in 256 rows or columns */
    ROWS = 256,
    COLS = 256,
    LEAST = 64, /* rows and columns */
    TASKS = 4,  /* wanted of a thread */
    MB = 2048,  /* 8 MiB of a */
    NB = 2048,
    MANY_COLUMNS = 8192,
    PACK_WORK = 32 << 10, /* elements that are worth a task */
    TASK_WORK = 1 << 22,  /* multiplications that are */
    LINE = 64,            /* bytes: pieces of the workspace begin on a cache line */
};

typedef struct product {
    gemm_product whole;
    float *sums; /* f32 results of a step while c is of 16 bits and k needs several steps */
    uint16_t *packed_a, *packed_b;
    int as_it_is;                      /* a is not packed */
    int64_t most_mb, most_nb, most_ks; /* of a step */
    int streams;                       /* c is written past the caches */
    /* the step: results [i0, i0 + mb) x [j0, j0 + nb), terms [p0, p0 + ks) */
    int64_t i0, j0, p0, mb, nb, ks;
    int new_a, new_b;   /* factors that the step before did not pack */
    int64_t rows, cols; /* of a task */
    int64_t strip;      /* tasks that come one below the other before the next column of tasks */
} product;

typedef struct task {
    const product *g;
    place from, to;
    int stream; /* `to` is written past the caches, and not read */
} task;

static inline int64_t panels(int64_t lanes)
{
    return ceil_div(lanes, PANEL);
}

/* Units of a panel in the step. */
static inline int64_t units(const product *g)
{
    return ceil_div(g->ks, TERMS);
}

/* Parts that a factor of so many lanes is packed in. */
static inline int64_t parts(const product *g, int64_t size)
{
    return ceil_div(panels(size), GROUP) * ceil_div(units(g), PART);
}

/* Packs parts [begin, end) of a and b, for a step: arg is its product. Those of a come first, if a
 * is packed anew. */
void gemm_tiles_pack(void *arg, int64_t begin, int64_t end, int worker);

/* Tasks [begin, end) of a step: arg is its task. */
void gemm_tiles_compute(void *arg, int64_t begin, int64_t end, int worker);

#endif
