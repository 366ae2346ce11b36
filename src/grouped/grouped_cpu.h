/* src/grouped/grouped_cpu.h - products of rows in groups on the CPU, for units that are compiled
 * once per level.
 *
 * A result is the sum over terms of a left and a right factor. What is computed is cut into tasks,
 * blocks of one group's results. A task packs both factors into panels, a number of terms at a
 * time: the left one MR lanes wide, the right one NR, stored word by word, and multiplies a panel
 * with a panel in registers. A word is an f32 or, at levels that multiply bf16, two of them that
 * follow each other along the terms. Rows are read from where they lie, so that nobody gathers
 * them before. The sums of a task stay in f32, in the cache, until they are complete. Then they go
 * to a function that makes results of them: all of the task's, or those of a panel with a panel.
 *
 * A result adds up its terms in one order, whatever the tasks are: the bits depend neither on them
 * nor on the number of threads.
 */
#ifndef TG_GROUPED_CPU_H
#define TG_GROUPED_CPU_H

#include "grouped.h"
#include "rows/level.h"
#include "simd.h"

#define grouped_reserve TG_AT_LEVEL(grouped_reserve)
#define grouped_run TG_AT_LEVEL(grouped_run)
#define grouped_write TG_AT_LEVEL(grouped_write)
#define grouped_floats TG_AT_LEVEL(grouped_floats)
#define grouped_sum_rows TG_AT_LEVEL(grouped_sum_rows)
#define grouped_clear TG_AT_LEVEL(grouped_clear)

#if defined(SIMD_BF16_DOT)
#define GROUPED_TAKES TG_TAKES_BF16
#else
#define GROUPED_TAKES TG_TAKES_FLOATS
#endif

/* A factor: rows of a tensor, or rows that a list names: row i is gather[i] / top_k. */
typedef struct grouped_factor {
    const char *data;
    el type;
    int64_t stride;
    const int64_t *gather; /* NULL: none */
    int64_t top_k;
} grouped_factor;

static inline const char *grouped_row_at(const grouped_factor *f, int64_t row, int64_t col)
{
    const int64_t at = f->gather ? f->gather[row] / f->top_k : row;
    return f->data + (at * f->stride + col) * el_size(f->type);
}

static inline int64_t grouped_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline grouped_factor grouped_factor_of(const tg_tensor *t, const int64_t *gather,
                                               int64_t top_k)
{
    if (!t)
        return (grouped_factor){0};
    const tg_rows rows = tg_rows_of(t);
    return (grouped_factor){rows.data, (el)tg_el(rows.type), rows.stride, gather, top_k};
}

static inline grouped_factor grouped_factor_at(const void *data, el type, int64_t stride)
{
    return (grouped_factor){data, type, stride, NULL, 1};
}

typedef struct grouped_block grouped_block;

/* What is computed of each group e, whose rows are [offset[e], offset[e + 1]):
 *   by_group 0: for each of these rows, its product with the matrix of the group. Left: the rows;
 *     right: the matrices, one below the other, `right_rows` rows each.
 *   by_group 1: the sum over these rows of left row times right row, a matrix of `rows` rows. */
typedef struct grouped_product {
    int by_group;
    int64_t groups;
    const int64_t *offset;
    grouped_factor left, right;
    int terms_are_rows; /* of the matrices: 0: their columns */
    int64_t right_rows;
    int64_t rows, cols, terms; /* rows: by_group alone, as terms is not */
    /* A task has columns from two places, `second` apart, each of `cols`. 0: from one. */
    int64_t second;
    int64_t unit; /* tasks begin at multiples of so many columns; 0: of any number */
    int alike;    /* rows do not know their batch; grouped_run() sets it */
    void (*write)(const struct grouped_product *p, const grouped_block *b);
    const void *arg;
} grouped_product;

/* A task's results: rows [row, row + rows), of all rows or of the group's matrix, and columns [col,
 * col + cols). */
struct grouped_block {
    int64_t group, row, rows, col, cols;
    const float *sums, *second; /* of the first row; second: those of the second place */
    int64_t stride;
    const char *then; /* of matrices: where the next task begins to read; or NULL */
};

/* Memory for any number of products, one after the other: taken before the first one writes. */
typedef struct grouped_memory {
    int64_t *first;
    void *words;
} grouped_memory;

tg_status grouped_reserve(tg_ctx *ctx, int64_t groups, grouped_memory *memory);

/* Computes p, and calls its `write` for each block, from any thread. Where that is grouped_write,
 * it may be called for parts of a block, or results be written as it would. */
void grouped_run(tg_ctx *ctx, const grouped_memory *memory, const grouped_product *p);

/* A compact tensor as f32, in workspace or where it is; NULL for NULL. */
tg_status grouped_floats(tg_ctx *ctx, const tg_tensor *t, const float **floats);

/* to[e] = sum over the rows j of group e of factor[j] times row j, in their order, or that added to
 * what it holds. to: [groups, columns], or NULL, and nothing is done. factor: NULL: 1. */
void grouped_sum_rows(tg_ctx *ctx, const grouped_factor *rows, const float *factor, int64_t groups,
                      const int64_t *offset, const tg_tensor *to, int64_t accumulate);

/* Rows of a tensor from `first` on become 0. */
void grouped_clear(tg_ctx *ctx, const tg_tensor *t, int64_t first);

/* ---- what tasks write ---- */

/* Rows of results, in memory of a tensor or of the workspace. */
typedef struct grouped_output {
    char *data;
    el type;
    int64_t stride;
    int64_t matrix_rows; /* of a group's matrix; 0: rows are those of all groups */
    const float *bias;   /* [groups, columns], added to the sums; or NULL */
    int64_t accumulate;  /* sums are added to what is there, and no bias */
    int stream;          /* without a bias: rows are written past the caches where they can be */
} grouped_output;

static inline grouped_output grouped_output_of(const tg_tensor *t)
{
    const tg_rows rows = tg_rows_of(t);
    return (grouped_output){.data = rows.data, .type = (el)tg_el(rows.type), .stride = rows.stride};
}

/* The gradient of all groups' matrices, or what is added to it. */
static inline grouped_output grouped_gradient_of(const tg_tensor *t, int64_t accumulate)
{
    grouped_output o = grouped_output_of(t);
    o.matrix_rows = grouped_matrices_of(t).rows;
    o.accumulate = accumulate;
    o.stream = !accumulate && tg_streams(tg_numel(t) * (int64_t)tg_type_size(tg_type_of(t)));
    return o;
}

/* A product's `write` whose `arg` is a grouped_output. */
void grouped_write(const grouped_product *p, const grouped_block *b);

#endif
