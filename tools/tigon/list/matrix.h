/* tools/tigon/list/matrix.h - `tigon list --matrix`: which implementation of which operator is right on
 * this machine, in which types. */
#ifndef TIGON_LIST_MATRIX_H
#define TIGON_LIST_MATRIX_H

#include <tigon/tigon.h>

typedef struct matrix_format {
    int json, markdown;
    const char *update; /* document to write the table into, or NULL */
} matrix_format;

/* Runs the checker's small cases of every implementation of these operators, with progress on stderr, and
 * prints the table. Returns the exit status: 1 if a check failed. */
int matrix_run(tg_ctx *ctx, const int *ops, int nops, const matrix_format *format);

#endif
