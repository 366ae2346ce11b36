/* fused_moe.args.h - what the kernels of fused_moe are given; see asc_args.h. */
#ifndef FUSED_MOE_ARGS_H
#define FUSED_MOE_ARGS_H

#include "products/grouped_gemm.args.h"

/* The activation's number, as the library has it. */
enum { MOE_SWIGLU, MOE_GEGLU, MOE_GEGLU_EXACT };

/* Sides of a tile; of its columns half are gates and half what they multiply. Products of a block
 * wait in so many slots of memory, and gathered rows in panels: as many as there are packets in L1,
 * which may all be of different tasks. MOE_PANEL_PIECE: bytes of such rows that a vector core has
 * at a time. */
enum {
    MOE_TILE_ROWS = 128,
    MOE_TILE_COLUMNS = 256,
    MOE_SLOTS = 2,
    MOE_PANELS = GEMM_PACKETS,
    MOE_PANEL_PIECE = 16384
};

/* What the plans of UB depend on. */
#define MOE_PAIRS TG_UB_OPTION(0)
#define MOE_EXACT TG_UB_OPTION(1)

#define MOE_GATE(X)     \
    X(I64, interleaved) \
    X(I64, activation)  \
    X(F32, limit)       \
    X(F32, alpha)       \
    X(F32, up_offset)

/* Products as in grouped_gemm, of columns 2 inner: gates and what they multiply, in halves or as
 * neighbours. pre gets the products, act what the gate makes of them; either may be absent. The
 * grid is planned: rows that a vector core takes at a time, `group`, and `side` of a tile's
 * columns. A task is rows of a group, at most a tile's, and `columns` gates, at most; with gather
 * the vector cores copy its rows to a panel first, whose rows lie panel_stride apart. work:
 * MOE_SLOTS tiles a block; panels: MOE_PANELS of them. */
#define MOE_PROJECT(X)                                                                            \
    X(MEMORY, a, ASC_T)                                                                           \
    X(MEMORY, b, ASC_T)                                                                           \
    X(MEMORY, bias, float)                                                                        \
    X(MEMORY, offset, int64_t)                                                                    \
    X(MEMORY, gather, int64_t)                                                                    \
    X(MEMORY, work, float)                                                                        \
    X(MEMORY, panels, ASC_T)                                                                      \
    X(MEMORY, pre, ASC_T)                                                                         \
    X(MEMORY, act, ASC_T)                                                                         \
    X(GRID, planned_rows, planned_columns, group, side)                                           \
    X(I64, top_k)                                                                                 \
    X(I64, a_stride)                                                                              \
    X(I64, b_stride)                                                                              \
    X(I64, b_step)                                                                                \
    X(I64, b_turned)                                                                              \
    X(I64, pre_stride)                                                                            \
    X(I64, act_stride)                                                                            \
    X(I64, groups)                                                                                \
    X(I64, rows)                                                                                  \
    X(I64, inner)                                                                                 \
    X(I64, k)                                                                                     \
    X(I64, columns)                                                                               \
    X(I64, panel_stride)                                                                          \
    X(I64, packet)                                                                                \
    X(I64, band)                                                                                  \
    MOE_GATE(X)                                                                                   \
    X(BUFFER, both, .bytes = 8, .to = TG_UB_LAST, .copies = 2, .bank = TG_UB_BANK_LOW)            \
    X(BUFFER, halves, .bytes = 8, .to = TG_UB_LAST, .bank = TG_UB_BANK_LOW, .when = MOE_PAIRS)    \
    X(BUFFER, piece, .per = TG_UB_FIXED, .bytes = MOE_PANEL_PIECE, .to = TG_UB_LAST, .copies = 2) \
    X(BUFFER, h, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH)                           \
    X(BUFFER, e, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH)                           \
    X(BUFFER, p, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH, .when = MOE_EXACT)        \
    X(BUFFER, q, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH, .when = MOE_EXACT)        \
    X(BUFFER, coefficients, .per = TG_UB_FIXED, .bytes = 9 * 32, .to = TG_UB_LAST,                \
      .when = MOE_EXACT)                                                                          \
    X(BUFFER, to_halves, .bytes = 4, .to = TG_UB_LAST, .when = MOE_PAIRS)                         \
    X(BUFFER, pre, .bytes = 4, .to = TG_UB_LAST, .copies = 2, .when = TG_UB_16BIT)                \
    X(BUFFER, pre_f32, .bytes = 8, .to = TG_UB_LAST, .copies = 2, .when = TG_UB_32BIT)            \
    X(BUFFER, act, .to = TG_UB_LAST, .copies = 2)

/* From the gradients `da` of the gate's results, [rows, columns] f32, and the products `pre`: dpre,
 * their gradients, and act, the results again; both times the weight of the row, which is that of
 * number slot[row], if there are weights. dots, if given: of that number, da times the results plus
 * `more`, of the row. Rows behind offset[groups] are zeros, and have none. Steps are not told
 * apart: all lives from the first to the last. */
#define MOE_GATE_BACKWARD(X)                                                            \
    X(MEMORY, da, float)                                                                \
    X(MEMORY, pre, ASC_T)                                                               \
    X(MEMORY, dpre, ASC_T)                                                              \
    X(MEMORY, act, ASC_T)                                                               \
    X(MEMORY, slot, int64_t)                                                            \
    X(MEMORY, offset, int64_t)                                                          \
    X(MEMORY, weights, float)                                                           \
    X(MEMORY, more, float)                                                              \
    X(MEMORY, dots, float)                                                              \
    X(GRID, rows, columns, tile_rows, tile_columns)                                     \
    X(I64, pre_stride)                                                                  \
    X(I64, groups)                                                                      \
    MOE_GATE(X)                                                                         \
    X(BUFFER, da, .bytes = 4, .to = TG_UB_LAST, .copies = 2)                            \
    X(BUFFER, pre, .bytes = 4, .to = TG_UB_LAST, .copies = 2, .when = TG_UB_16BIT)      \
    X(BUFFER, pre_f32, .bytes = 8, .to = TG_UB_LAST, .copies = 2, .when = TG_UB_32BIT)  \
    X(BUFFER, mixed, .bytes = 8, .to = TG_UB_LAST, .when = MOE_PAIRS)                   \
    X(BUFFER, halves, .bytes = 8, .to = TG_UB_LAST)                                     \
    X(BUFFER, y, .bytes = 4, .to = TG_UB_LAST)                                          \
    X(BUFFER, g, .bytes = 4, .to = TG_UB_LAST)                                          \
    X(BUFFER, h, .bytes = 4, .to = TG_UB_LAST)                                          \
    X(BUFFER, k, .bytes = 4, .to = TG_UB_LAST)                                          \
    X(BUFFER, e, .bytes = 4, .to = TG_UB_LAST)                                          \
    X(BUFFER, c, .bytes = 4, .to = TG_UB_LAST)                                          \
    X(BUFFER, v, .bytes = 4, .to = TG_UB_LAST)                                          \
    X(BUFFER, coefficients, .per = TG_UB_FIXED, .bytes = 9 * 32, .to = TG_UB_LAST,      \
      .when = MOE_EXACT)                                                                \
    X(BUFFER, to_halves, .bytes = 4, .to = TG_UB_LAST, .when = MOE_PAIRS)               \
    X(BUFFER, to_pairs, .bytes = 8, .to = TG_UB_LAST, .when = MOE_PAIRS)                \
    X(BUFFER, dpre, .bytes = 4, .to = TG_UB_LAST, .copies = 2, .when = TG_UB_16BIT)     \
    X(BUFFER, dpre_f32, .bytes = 8, .to = TG_UB_LAST, .copies = 2, .when = TG_UB_32BIT) \
    X(BUFFER, act, .to = TG_UB_LAST, .copies = 2)                                       \
    X(BUFFER, index, .per = TG_UB_ROW, .bytes = 8, .to = TG_UB_LAST)                    \
    X(BUFFER, weight, .per = TG_UB_ROW, .bytes = 32, .to = TG_UB_LAST)                  \
    X(BUFFER, more, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST)                     \
    X(BUFFER, value, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST)                    \
    X(BUFFER, total, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST)                    \
    X(BUFFER, part, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST)                     \
    X(BUFFER, eighth, .bytes = 4, .every = 8, .to = TG_UB_LAST)                         \
    X(BUFFER, rest, .bytes = 4, .every = 64, .to = TG_UB_LAST)                          \
    X(BUFFER, block, .per = TG_UB_ROW, .bytes = 32, .to = TG_UB_LAST, .align = 256)     \
    X(BUFFER, dots, .per = TG_UB_ROW, .bytes = 32, .to = TG_UB_LAST, .align = 256)

/* dots[row] = the row of x times that of b which belongs to the row's group, f32. */
#define MOE_BIAS_DOTS(X)                                             \
    X(MEMORY, x, ASC_T)                                              \
    X(MEMORY, b, float)                                              \
    X(MEMORY, offset, int64_t)                                       \
    X(MEMORY, dots, float)                                           \
    X(GRID, rows, columns, tile_rows, tile_columns)                  \
    X(I64, groups)                                                   \
    X(BUFFER, x, .to = TG_UB_LAST)                                   \
    X(BUFFER, wide, .bytes = 4, .to = TG_UB_LAST)                    \
    X(BUFFER, b, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST)  \
    X(BUFFER, part, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST)  \
    X(BUFFER, total, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST) \
    X(BUFFER, eighth, .bytes = 4, .every = 8, .to = TG_UB_LAST)      \
    X(BUFFER, rest, .bytes = 4, .every = 64, .to = TG_UB_LAST)

#endif
