/* rms_norm_pieces.args.h - how the kernels of rms_norm with a gate or a scale take rows: whole, or,
 * of rows that UB has no room for, in pieces. */
#ifndef RMS_NORM_PIECES_ARGS_H
#define RMS_NORM_PIECES_ARGS_H

#include "shared/asc_args.h"

#define RMS_NORM_PIECES TG_UB_OPTION(0) /* gone through twice, for their sums and for the rest */
#define RMS_NORM_WHOLE TG_UB_OPTION(1)

/* mean: 1 / columns. */
#define RMS_NORM_FORWARD_NUMBERS(X) \
    X(I64, weight_f32)              \
    X(F32, offset)                  \
    X(F32, mean)                    \
    X(F32, eps)                     \
    X(GRID, rows, columns, tile_rows, tile_columns)

#define RMS_NORM_BACKWARD_NUMBERS(X) \
    X(I64, weight_f32)               \
    X(F32, offset)                   \
    X(F32, mean)                     \
    X(GRID, rows, columns, tile_rows, tile_columns)

/* Numbers of the rows, and room for their sums, which the third step of the forward and the fourth
 * of the backward make. */
#define RMS_NORM_FORWARD_SUM_BUFFERS(X)                                              \
    X(BUFFER, spread, .per = TG_UB_ROW, .bytes = 32, .to = TG_UB_LAST, .align = 256) \
    X(BUFFER, eighth, .bytes = 4, .every = 8, .from = 3, .to = 3)                    \
    X(BUFFER, rest, .bytes = 4, .every = 64, .from = 3, .to = 3)

#define RMS_NORM_BACKWARD_SUM_BUFFERS(X)                                              \
    X(BUFFER, rstds, .per = TG_UB_ROW, .bytes = 32, .to = TG_UB_LAST, .align = 256)   \
    X(BUFFER, factors, .per = TG_UB_ROW, .bytes = 32, .to = TG_UB_LAST, .align = 256) \
    X(BUFFER, eighth, .bytes = 4, .every = 8, .from = 4, .to = 4)                     \
    X(BUFFER, rest, .bytes = 4, .every = 64, .from = 4, .to = 4)

#endif
