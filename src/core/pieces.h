/* src/core/pieces.h - rows shared out for sums: long ones in pieces, short ones in groups, by the problem's size alone.
 *
 * A piece is summed in f32, the sums of items are added in double in their order: the same bits for any number of threads.
 */
#ifndef TG_CORE_PIECES_H
#define TG_CORE_PIECES_H

#include "core/services.h"

/* Elements of a row that are summed in f32, and the least that is worth a thread. */
enum { TG_PIECE = 8192 };

typedef struct tg_pieces {
    int64_t rows, n;
    int64_t pieces, group; /* an item is one of so many pieces of a row, or so many rows */
} tg_pieces;

/* Cuts rows x n elements, which are one long row where all tensors are compact. Returns the number of items. */
static inline int64_t tg_pieces_cut(tg_pieces *p, int one_row)
{
    if (p->rows * p->n == 0)
        return 0;
    if (one_row) {
        p->n *= p->rows;
        p->rows = 1;
    }
    p->pieces = (p->n + TG_PIECE - 1) / TG_PIECE;
    p->group = p->n < TG_PIECE ? TG_PIECE / p->n : 1;
    return (p->rows + p->group - 1) / p->group * p->pieces;
}

/* Elements [first, first + n) of rows [row, end). */
typedef struct tg_piece {
    int64_t row, end, first, n;
} tg_piece;

static inline tg_piece tg_piece_at(const tg_pieces *p, int64_t item)
{
    const int64_t first = item % p->pieces * TG_PIECE, row = item / p->pieces * p->group;
    const int64_t end = row + p->group < p->rows ? row + p->group : p->rows;
    return (tg_piece){row, end, first, p->n - first < TG_PIECE ? p->n - first : TG_PIECE};
}

static inline double tg_pieces_sum(const double *sums, int64_t items)
{
    double sum = 0;
    for (int64_t i = 0; i < items; i++)
        sum += sums[i];
    return sum;
}

/* Data of a tensor of rows, and its row stride in bytes. */
static inline char *tg_row_bytes(const tg_tensor *t, int64_t *stride)
{
    const tg_rows rows = tg_rows_of(t);
    *stride = rows.stride * (int64_t)tg_type_size(rows.type);
    return rows.data;
}

#endif
