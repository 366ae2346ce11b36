/* src/rows/pieces.h - rows shared out by elements: long ones in pieces, short ones in groups, by
 * the problem's size alone.
 *
 * What is summed of a piece in f32 is added up in double in the order of the items: the same bits
 * for any number of threads.
 */
#ifndef TG_ROWS_PIECES_H
#define TG_ROWS_PIECES_H

#include <stdint.h>

typedef struct pieces {
    int64_t rows, n;
    int64_t size;         /* most elements of a piece */
    int64_t count, group; /* an item is one of so many pieces of a row, or so many rows */
} pieces;

/* Cuts rows x n elements, which are one long row where all tensors are compact. Returns
 * the number of items. */
static inline int64_t pieces_cut(pieces *p, int one_row)
{
    if (p->rows * p->n == 0)
        return 0;
    if (one_row) {
        p->n *= p->rows;
        p->rows = 1;
    }
    p->count = (p->n + p->size - 1) / p->size;
    p->group = p->n < p->size ? p->size / p->n : 1;
    return (p->rows + p->group - 1) / p->group * p->count;
}

/* Elements [first, first + n) of rows [row, end). */
typedef struct piece {
    int64_t row, end, first, n;
} piece;

static inline piece piece_at(const pieces *p, int64_t item)
{
    const int64_t first = item % p->count * p->size, row = item / p->count * p->group;
    const int64_t end = row + p->group < p->rows ? row + p->group : p->rows;
    return (piece){row, end, first, p->n - first < p->size ? p->n - first : p->size};
}

static inline double pieces_sum(const double *sums, int64_t items)
{
    double sum = 0;
    for (int64_t i = 0; i < items; i++)
        sum += sums[i];
    return sum;
}

#endif
