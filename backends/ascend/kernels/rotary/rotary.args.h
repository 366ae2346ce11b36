/* rotary.args.h - what the kernels of rope, qwen2vl_mrope and llama4_rope are
 * given; see asc_args.h. */
#ifndef ROTARY_ARGS_H
#define ROTARY_ARGS_H

#include "shared/asc_args.h"

enum { ROTARY_POSITIONS = 4, ROTARY_PLANES = 3 }; /* of a tile at most; of a table at most */

/* x, y [batches, positions, heads, ...] with three strides in elements. A tile is tile_positions
 * positions of tile_heads heads, of each `parts` pieces of tile_columns columns: the two halves of
 * a pair, half_distance apart, or what pairs lie in. */
#define ROTARY_ROWS(X)                              \
    X(MEMORY, x, ASC_T)                             \
    X(MEMORY, y, ASC_T)                             \
    X(I64, batches)                                 \
    X(I64, positions)                               \
    X(I64, heads)                                   \
    X(I64, x_batch)                                 \
    X(I64, x_position)                              \
    X(I64, x_head)                                  \
    X(I64, y_batch)                                 \
    X(I64, y_position)                              \
    X(I64, y_head)                                  \
    X(GRID, rows, columns, tile_rows, tile_columns) \
    X(I64, tile_positions)                          \
    X(I64, tile_heads)

/* Elements of any of them, as they are copied and as they are turned. */
#define ROTARY_ELEMENTS(X)                                                                      \
    X(BUFFER, x, .to = 2, .copies = 2, .bank = TG_UB_BANK_LOW)                                  \
    X(BUFFER, y, .from = 2, .to = 3, .copies = 2)                                               \
    X(BUFFER, x32, .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT) \
    X(BUFFER, y32, .bytes = 4, .from = 2, .to = 3, .when = TG_UB_16BIT)

/* Cosines and sines of so many planes, and the sines of the turn with either sign. */
#define ROTARY_ANGLES(X, planes)                                                                \
    X(BUFFER, cos, .per = TG_UB_COLUMN, .bytes = planes * ROTARY_POSITIONS * 4, .to = 2,        \
      .copies = 2, .align = 256, .bank = TG_UB_BANK_HIGH)                                       \
    X(BUFFER, sin, .per = TG_UB_COLUMN, .bytes = planes * ROTARY_POSITIONS * 4, .to = 2,        \
      .copies = 2, .align = 256, .bank = TG_UB_BANK_HIGH)                                       \
    X(BUFFER, cos32, .per = TG_UB_COLUMN, .bytes = planes * ROTARY_POSITIONS * 4, .to = 2,      \
      .align = 256, .bank = TG_UB_BANK_HIGH, .when = TG_UB_16BIT)                               \
    X(BUFFER, sin32, .per = TG_UB_COLUMN, .bytes = planes * ROTARY_POSITIONS * 4, .to = 2,      \
      .align = 256, .bank = TG_UB_BANK_HIGH, .when = TG_UB_16BIT)                               \
    X(BUFFER, plus, .per = TG_UB_COLUMN, .bytes = ROTARY_POSITIONS * 4, .to = 2, .align = 256,  \
      .bank = TG_UB_BANK_HIGH)                                                                  \
    X(BUFFER, minus, .per = TG_UB_COLUMN, .bytes = ROTARY_POSITIONS * 4, .to = 2, .align = 256, \
      .bank = TG_UB_BANK_HIGH)

/* Two tables of `planes` planes; a column before `second` is of the first plane, one before `third`
 * of the second. direction: 1, or -1 to turn back. Steps: 0 copy in, 1 widen, 2 turn, 3 copy out.
 * Of two sources of one instruction one lies LOW, one HIGH. */
#define ROTARY_HALVES(X) \
    ROTARY_ROWS(X)       \
    X(MEMORY, cos, void) \
    X(MEMORY, sin, void) \
    X(I64, cos_plane)    \
    X(I64, cos_batch)    \
    X(I64, cos_position) \
    X(I64, sin_plane)    \
    X(I64, sin_batch)    \
    X(I64, sin_position) \
    X(I64, table_f32)    \
    X(I64, planes)       \
    X(I64, second)       \
    X(I64, third)        \
    X(F32, direction)    \
    ROTARY_ELEMENTS(X)   \
    ROTARY_ANGLES(X, ROTARY_PLANES)

/* Halves or neighbours before and after, one plane. to_halves, to_pairs: offsets of their elements
 * among the others; moved: what they bring or are to bring elsewhere. Steps as above. */
#define ROTARY_MOVED(X)                                           \
    ROTARY_ROWS(X)                                                \
    X(MEMORY, cos, void)                                          \
    X(MEMORY, sin, void)                                          \
    X(I64, cos_batch)                                             \
    X(I64, cos_position)                                          \
    X(I64, sin_batch)                                             \
    X(I64, sin_position)                                          \
    X(I64, table_f32)                                             \
    X(I64, from_neighbours)                                       \
    X(I64, to_neighbours)                                         \
    X(F32, direction)                                             \
    ROTARY_ELEMENTS(X)                                            \
    X(BUFFER, moved, .bytes = 4, .to = 3, .bank = TG_UB_BANK_LOW) \
    X(BUFFER, to_halves, .bytes = 4, .to = TG_UB_LAST)            \
    X(BUFFER, to_pairs, .bytes = 4, .to = TG_UB_LAST)             \
    ROTARY_ANGLES(X, 1)

/* A table of pairs. swap: offsets that exchange neighbours. */
#define ROTARY_PAIRS(X)                                                                           \
    ROTARY_ROWS(X)                                                                                \
    X(MEMORY, freqs, void)                                                                        \
    X(I64, freqs_batch)                                                                           \
    X(I64, freqs_position)                                                                        \
    X(I64, table_f32)                                                                             \
    X(F32, direction)                                                                             \
    ROTARY_ELEMENTS(X)                                                                            \
    X(BUFFER, swapped, .bytes = 4, .from = 2, .to = 2, .bank = TG_UB_BANK_LOW)                    \
    X(BUFFER, swap, .bytes = 4, .to = TG_UB_LAST)                                                 \
    X(BUFFER, freqs, .per = TG_UB_COLUMN, .bytes = ROTARY_POSITIONS * 4, .to = 2, .copies = 2,    \
      .align = 256)                                                                               \
    X(BUFFER, freqs32, .per = TG_UB_COLUMN, .bytes = ROTARY_POSITIONS * 4, .to = 2, .align = 256, \
      .when = TG_UB_16BIT)                                                                        \
    X(BUFFER, real, .per = TG_UB_COLUMN, .bytes = ROTARY_POSITIONS * 4, .to = 2, .align = 256,    \
      .bank = TG_UB_BANK_HIGH)                                                                    \
    X(BUFFER, imaginary, .per = TG_UB_COLUMN, .bytes = ROTARY_POSITIONS * 4, .to = 2,             \
      .align = 256, .bank = TG_UB_BANK_HIGH)

/* What is not turned: columns that are copied as they are. */
#define ROTARY_COPY(X) \
    ROTARY_ROWS(X)     \
    X(BUFFER, x, .to = 1, .copies = 2)

#endif
