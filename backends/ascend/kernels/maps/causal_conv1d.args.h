/* causal_conv1d.args.h - what the kernels of causal_conv1d are given; see asc_args.h. */
#ifndef CAUSAL_CONV1D_ARGS_H
#define CAUSAL_CONV1D_ARGS_H

#include "shared/asc_args.h"

enum { CONV_MOST = 16 /* taps */ };

#define CONV_IN_GATE TG_UB_OPTION(0)
#define CONV_OUT_GATE TG_UB_OPTION(1)

/* `groups` tasks share the rows of a strip of columns. A tile has rows of one segment, with the up
 * to width - 1 rows before them, and in backward behind them, that are read with them: tile_rows
 * are all of these. */
#define CAUSAL_CONV1D_GIVEN(X)   \
    X(TENSOR, x, ASC_T)          \
    X(TENSOR, in_gate, ASC_T)    \
    X(TENSOR, out_gate, ASC_T)   \
    X(VECTOR, weight, void)      \
    X(VECTOR, bias, void)        \
    X(VECTOR, segments, int64_t) \
    X(I64, tokens)               \
    X(I64, width)                \
    X(I64, silu)                 \
    X(I64, groups)               \
    X(I64, weight_f32)           \
    X(I64, bias_f32)

/* taps, and in backward sums, a row for each tap, then sums' for the bias. Steps: 0 copy in, 1
 * compute, 2 copy out. Of two sources of one instruction one lies LOW, one HIGH. v, which almost
 * every instruction reads or writes, is said to live long, so that the planner puts it first, in
 * another of the banks of 64 KiB than all that it meets: what is written in place is written while
 * the other source is read. */
#define CAUSAL_CONV1D_BUFFERS(X)                                                                 \
    X(BUFFER, x, .to = 1, .copies = 2)                                                           \
    X(BUFFER, in_gate, .to = 1, .copies = 2, .when = CONV_IN_GATE)                               \
    X(BUFFER, out_gate, .to = 1, .copies = 2, .when = CONV_OUT_GATE)                             \
    X(BUFFER, u, .bytes = 4, .from = 1, .to = 1, .bank = TG_UB_BANK_LOW)                         \
    X(BUFFER, taps, .per = TG_UB_COLUMN, .bytes = 64, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH) \
    X(BUFFER, bias_row, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH)

#define CAUSAL_CONV1D_FORWARD(X)                                        \
    CAUSAL_CONV1D_GIVEN(X)                                              \
    X(TENSOR, y, ASC_T)                                                 \
    X(GRID, rows, columns, tile_rows, tile_columns)                     \
    CAUSAL_CONV1D_BUFFERS(X)                                            \
    X(BUFFER, p, .per = TG_UB_COLUMN, .bytes = 64, .to = TG_UB_LAST)    \
    X(BUFFER, v, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH) \
    X(BUFFER, y, .from = 1, .to = 2, .copies = 2)

/* dweights, dbiases: of each group, or NULL. */
#define CAUSAL_CONV1D_BACKWARD(X)                                                                 \
    CAUSAL_CONV1D_GIVEN(X)                                                                        \
    X(TENSOR, dy, ASC_T)                                                                          \
    X(TENSOR, dx, ASC_T)                                                                          \
    X(TENSOR, din_gate, ASC_T)                                                                    \
    X(TENSOR, dout_gate, ASC_T)                                                                   \
    X(MEMORY, dweights, float)                                                                    \
    X(MEMORY, dbiases, float)                                                                     \
    X(I64, dweights_stride)                                                                       \
    X(I64, dbiases_stride)                                                                        \
    X(GRID, rows, columns, tile_rows, tile_columns)                                               \
    CAUSAL_CONV1D_BUFFERS(X)                                                                      \
    X(BUFFER, dy, .to = 1, .copies = 2)                                                           \
    X(BUFFER, g, .bytes = 4, .from = 1, .to = 1, .bank = TG_UB_BANK_LOW)                          \
    X(BUFFER, forth, .per = TG_UB_COLUMN, .bytes = 64, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH) \
    X(BUFFER, v, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH)                           \
    X(BUFFER, p, .bytes = 4, .from = 1, .to = 1, .bank = TG_UB_BANK_LOW)                          \
    X(BUFFER, f, .bytes = 4, .from = 1, .to = 1, .when = CONV_OUT_GATE)                           \
    X(BUFFER, minus_one, .per = TG_UB_FIXED, .bytes = 32, .to = TG_UB_LAST)                       \
    X(BUFFER, sums, .per = TG_UB_COLUMN, .bytes = 68, .to = TG_UB_LAST, .bank = TG_UB_BANK_LOW)   \
    X(BUFFER, dx, .from = 1, .to = 2, .copies = 2)                                                \
    X(BUFFER, din_gate, .from = 1, .to = 2, .copies = 2, .when = CONV_IN_GATE)                    \
    X(BUFFER, dout_gate, .from = 1, .to = 2, .copies = 2, .when = CONV_OUT_GATE)

#endif
