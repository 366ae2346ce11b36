/* What the units of the portable gemm share: sizes, a product and its step; see gemm_cpu.c. */
#ifndef TG_GEMM_CPU_H
#define TG_GEMM_CPU_H

#include "gemm_matrix.h"
#include "rows/level.h"
#include "simd/words.h"

#define gemm_pack_a TG_AT_LEVEL(gemm_pack_a)
#define gemm_pack_b TG_AT_LEVEL(gemm_pack_b)
#define gemm_tile TG_AT_LEVEL(gemm_tile)
#define gemm_store_rows TG_AT_LEVEL(gemm_store_rows)
#define gemm_few TG_AT_LEVEL(gemm_few)
#define gemm_few_words TG_AT_LEVEL(gemm_few_words)

enum {
    KB = PAIRS ? 1024 : 512,    /* terms */
    HEIGHTS = MR > VL ? VL : 2, /* panels of a are multiples of so many rows */
    BLOCK_ROWS = (PAIRS ? 280 : 560) / MR * MR,
    BLOCKS = 2, /* blocks of rows in a step: bounds the workspace */
    NB = 2048,
    MB = BLOCKS * BLOCK_ROWS,
    PACK_WORK = 32 << 10,   /* elements of a that are worth a task */
    TILE_WORK = 1 << 20,    /* multiplications that are worth a task */
    MANY_TASKS = 64,        /* from so many on, tasks of four panels */
    LINE = 64,              /* bytes of a cache line */
    AHEAD = PAIRS ? 8 : 16, /* words between two prefetches */
    FEW_ROWS = SIMD_REGISTERS == 32 ? 8 : 4,
};

typedef struct product {
    gemm_product whole;
    int64_t most_mb, most_nb, most_kb; /* of a step */
    int64_t height;                    /* rows of a panel of a */
    float *sums;    /* f32 results of a step while c is of 16 bits and k needs several steps */
    word *packed_a; /* all panels of the step */
    word *packed_b; /* two panels a worker */
    /* the step: results [i0, i0 + mb) x [j0, j0 + nb), terms [p0, p0 + kb) */
    int64_t i0, j0, p0, mb, nb, kb;
} product;

/* Words of a packed panel; one of a leaves room for the vector that runs past its last word. */
static inline int64_t panel_a(const product *g)
{
    return words_of(g->kb) * g->height + VL;
}

static inline int64_t panel_b(const product *g)
{
    return words_of(g->kb) * NR;
}

/* A packed panel has word p of lane w at p * width + w, zero for lanes that are none. */

/* Panels [begin, end) of the step's part of a: arg is its product. */
void gemm_pack_a(void *arg, int64_t begin, int64_t end, int worker);

/* Terms [p, p + terms) of the panel of b at column j; p is a multiple of a word's. */
void gemm_pack_b(const product *g, int64_t j, int64_t p, int64_t terms, word *out);

/* What is computed of a step. */
typedef struct task {
    const product *g;
    place from, to;
    int64_t rows; /* of a block */
} task;

/* Cache lines of a rectangle in memory, to be fetched one by one while tiles are computed. */
typedef struct lines {
    const char *next;
    int64_t row_lines, skip; /* lines of a row; bytes from its end to the next row */
    int64_t left_in_row, rows;
} lines;

static inline lines lines_of(const char *data, int64_t rows, int64_t row_bytes, int64_t stride)
{
    const int64_t n = ceil_div(row_bytes, LINE);
    return (lines){data, n, stride - n * LINE, n, rows};
}

/* Results from (i, j) on, of a panel of a and one of b: to = from + alpha * (panel of a) * (panel
 * of b). Meanwhile the cache fetches their place, and `ahead`. */
void gemm_tile(const task *t, const word *a, const word *b, lines *ahead, int64_t i, int64_t j);

/* `rows` rows of sums, `stride` apart, become the step's results from its first one on. */
void gemm_store_rows(const task *t, int64_t rows, int64_t cols, const float *sums, int64_t stride);

/* ---- gemm_kernel_few.c ---- */

/* The rows of a panel if a product of m rows is one of few, else 0. */
static inline int64_t few_rows(int64_t m)
{
    return m > FEW_ROWS ? 0 : m > 4 ? FEW_ROWS : m > 2 ? 4 : m;
}

/* Words of all panels of a, of g's height and steps. */
int64_t gemm_few_words(const product *g);

/* A whole product of few rows. */
void gemm_few(product *g);

#endif
