/* tools/tigon/list/matrix.h - `tigon list --matrix`: which implementations of which
 * operator are right on the context's device, in which types; and the page that keeps what
 * was found on others. */
#ifndef TIGON_LIST_MATRIX_H
#define TIGON_LIST_MATRIX_H

#include <stdio.h>
#include <tigon/tigon.h>

enum { MATRIX_COLUMNS = 16, MATRIX_CELL = 240 };

typedef struct matrix_format {
    int json, markdown;
    const char *update; /* document to write the table into, or NULL */
} matrix_format;

/* The implementations of a device; of those of the CPU, which are the reference's and others', a
 * column a backend. */
typedef struct matrix_column {
    char name[32];
    char where
        [128]; /* "NVIDIA H200, 2026-11-29"; "not run": what the tables of implementations say */
} matrix_column;

typedef struct matrix_line {
    int op;
    char cell[MATRIX_COLUMNS]
             [MATRIX_CELL]; /* "v4 v3 v2: f32 bf16 f16; amx: bf16; cudnn: -"; "" for none */
} matrix_line;

typedef struct matrix {
    int ncolumns, nlines, failed;
    matrix_column column[MATRIX_COLUMNS];
    matrix_line *line;
} matrix;

/* The column of that name, added if it is not there; -1: there is no room. */
int matrix_column_of(matrix *m, const char *name);
/* "forward", "backward" or "-", and how much of the name comes before it. */
const char *matrix_direction(const char *op, int *base);

/* Runs the checker's small cases of every implementation of these operators, with progress on
 * stderr, and prints the table. Returns the exit status: 1 if a check failed. */
int matrix_run(tg_ctx *ctx, const int *ops, int nops, const matrix_format *format);

/* ---- matrix_page.c ---- */

/* Adds the columns that the context's device is not of: those that `page` has (NULL:
 * none), as they stand there; of other devices what the tables of implementations say. 0,
 * or -1 after a message. */
int matrix_add_others(matrix *m, const char *page);
/* m: a matrix. */
void matrix_markdown(FILE *out, const void *m);

#endif
