/* sparsemax.args.h - what the kernels of sparsemax are given; see asc_args.h. */
#ifndef SPARSEMAX_ARGS_H
#define SPARSEMAX_ARGS_H

#include "shared/asc_args.h"

enum {
    SPARSEMAX_BESIDE = 16, /* rows of a tile, at most */
    SPARSEMAX_ROW = 4096,  /* elements of a row, at most, in tiles of many rows */
    /* columns, where rows go down them, and with them numbers of each kind */
    SPARSEMAX_COLUMNS = 256,
    SPARSEMAX_PARTS = 4 /* sums that a short row is added up in, side by side */
};

/* Rows of `length` elements, ..._step apart, of which tasks have so many beside each other: rows
 * that begin ..._outer apart, if they lie along the tensor's; or, if `down`, columns, of which each
 * of `outer` groups has `inner`. beside, piece: of a task at a time. whole: a piece has all of a
 * row, and stays where it is. */
#define SPARSEMAX_CUT(X)                            \
    X(GRID, rows, columns, tile_rows, tile_columns) \
    X(I64, down)                                    \
    X(I64, outer)                                   \
    X(I64, inner)                                   \
    X(I64, length)                                  \
    X(I64, beside)                                  \
    X(I64, piece)

/* Buffers that are folded come first, away from the lanes: where they share a bank, each
 * second repeat waits.
 *
 * NUMBERS of the rows: seven kinds. Lanes: sums, counts, and a piece's part of the sums. */
#define SPARSEMAX_ROOM(X)                                                                        \
    X(BUFFER, numbers, .per = TG_UB_FIXED, .bytes = 7 * SPARSEMAX_COLUMNS * 4, .to = TG_UB_LAST) \
    X(BUFFER, blocks, .per = TG_UB_FIXED, .bytes = 2 * SPARSEMAX_COLUMNS * 4, .to = TG_UB_LAST,  \
      .bank = TG_UB_BANK_HIGH)                                                                   \
    X(BUFFER, lanes, .per = TG_UB_FIXED, .bytes = 3 * SPARSEMAX_BESIDE * 256, .to = TG_UB_LAST,  \
      .bank = TG_UB_BANK_HIGH)

#define SPARSEMAX_FORWARD(X)                                           \
    X(TENSOR, x, ASC_T)                                                \
    X(TENSOR, y, ASC_T)                                                \
    SPARSEMAX_CUT(X)                                                   \
    X(I64, x_outer)                                                    \
    X(I64, x_step)                                                     \
    X(I64, y_outer)                                                    \
    X(I64, y_step)                                                     \
    X(BUFFER, w, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_LOW) \
    X(BUFFER, x, .copies = 2, .bank = TG_UB_BANK_LOW)                  \
    X(BUFFER, y, .to = TG_UB_LAST, .bank = TG_UB_BANK_LOW)             \
    X(BUFFER, d, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_LOW) \
    SPARSEMAX_ROOM(X)

#define SPARSEMAX_BACKWARD(X)                                                                  \
    X(TENSOR, dy, ASC_T)                                                                       \
    X(TENSOR, y, ASC_T)                                                                        \
    X(TENSOR, dx, ASC_T)                                                                       \
    SPARSEMAX_CUT(X)                                                                           \
    X(I64, dy_outer)                                                                           \
    X(I64, dy_step)                                                                            \
    X(I64, y_outer)                                                                            \
    X(I64, y_step)                                                                             \
    X(I64, dx_outer)                                                                           \
    X(I64, dx_step)                                                                            \
    X(BUFFER, g, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_LOW)                         \
    X(BUFFER, m, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_LOW)                         \
    X(BUFFER, dy, .copies = 2, .bank = TG_UB_BANK_LOW)                                         \
    X(BUFFER, y, .copies = 2, .bank = TG_UB_BANK_HIGH)                                         \
    X(BUFFER, dx, .to = TG_UB_LAST, .bank = TG_UB_BANK_LOW)                                    \
    X(BUFFER, y32, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH, .when = TG_UB_16BIT) \
    SPARSEMAX_ROOM(X)

/* Whole rows that lie along the tensor's, `outer` of them so far apart, several in a tile. top:
 * maxima of eight neighbours; of_row: offsets of the partial sums of a row (asc_runs.h). */
#define SPARSEMAX_FORWARD_ROWS(X)                                                  \
    X(TENSOR, x, ASC_T)                                                            \
    X(TENSOR, y, ASC_T)                                                            \
    X(GRID, rows, columns, tile_rows, tile_columns)                                \
    X(I64, x_outer)                                                                \
    X(I64, y_outer)                                                                \
    X(BUFFER, x, .copies = 2, .bank = TG_UB_BANK_LOW)                              \
    X(BUFFER, y, .to = TG_UB_LAST, .bank = TG_UB_BANK_LOW)                         \
    X(BUFFER, d, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_LOW)             \
    X(BUFFER, w, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH)            \
    X(BUFFER, top, .bytes = 4, .every = 8, .to = TG_UB_LAST)                       \
    X(BUFFER, eighth, .bytes = 4, .every = 8, .to = TG_UB_LAST)                    \
    X(BUFFER, sums, .bytes = 4, .every = 64, .to = TG_UB_LAST)                     \
    X(BUFFER, counts, .bytes = 4, .every = 64, .to = TG_UB_LAST)                   \
    X(BUFFER, of_row, .bytes = 32, .every = 64, .to = TG_UB_LAST)                  \
    X(BUFFER, numbers, .per = TG_UB_ROW, .bytes = 4, .copies = 7)                  \
    X(BUFFER, base, .per = TG_UB_ROW, .bytes = 32, .to = TG_UB_LAST, .align = 256, \
      .bank = TG_UB_BANK_HIGH)                                                     \
    X(BUFFER, tau, .per = TG_UB_ROW, .bytes = 32, .to = TG_UB_LAST, .align = 256,  \
      .bank = TG_UB_BANK_HIGH)

/* Short rows: a number of a kind for each; sums, counts, and SPARSEMAX_PARTS sums of a part of a
 * row. Steps: 0 copy in, 1 transpose, 2 arithmetic, 3 transpose
 * back, 4 copy out. */
#define SPARSEMAX_LANES(X)                                                    \
    X(BUFFER, numbers, .per = TG_UB_COLUMN, .bytes = 7 * 4, .to = TG_UB_LAST) \
    X(BUFFER, blocks, .per = TG_UB_COLUMN, .bytes = 2 * 4, .to = TG_UB_LAST)  \
    X(BUFFER, sums, .per = TG_UB_COLUMN, .bytes = (2 + SPARSEMAX_PARTS) * 4, .to = TG_UB_LAST)

#define SPARSEMAX_FORWARD_SHORT(X)                 \
    X(TENSOR, x, ASC_T)                            \
    X(TENSOR, y, ASC_T)                            \
    ASC_SHORT_PLANNED(X)                           \
    X(BUFFER, x, .to = 1, .copies = 2)             \
    X(BUFFER, y, .from = 2, .to = 4, .copies = 2)  \
    X(BUFFER, x32, .bytes = 4, .from = 1, .to = 2) \
    X(BUFFER, d, .bytes = 4, .from = 2, .to = 3)   \
    SPARSEMAX_LANES(X)

#define SPARSEMAX_BACKWARD_SHORT(X)                 \
    X(TENSOR, dy, ASC_T)                            \
    X(TENSOR, y, ASC_T)                             \
    X(TENSOR, dx, ASC_T)                            \
    ASC_SHORT_PLANNED(X)                            \
    X(BUFFER, dy, .to = 1, .copies = 2)             \
    X(BUFFER, y, .to = 1, .copies = 2)              \
    X(BUFFER, dx, .from = 2, .to = 4, .copies = 2)  \
    X(BUFFER, dy32, .bytes = 4, .from = 1, .to = 3) \
    X(BUFFER, y32, .bytes = 4, .from = 1, .to = 2)  \
    SPARSEMAX_LANES(X)

#endif
