/* flash_attention.args.h - what the kernels of flash_attention are given; see asc_args.h. */
#ifndef FLASH_ATTENTION_ARGS_H
#define FLASH_ATTENTION_ARGS_H

#include "attention.args.h"

/* What the vector cores need where they change scores before the softmax: the last buffers, of
 * which a cap alone has no use for the last. */
#define FLASH_CHANGES_OF_SCORES(X)                 \
    X(BUFFER, slope, .bytes = 4, .to = TG_UB_LAST) \
    X(BUFFER, spare, .bytes = 4, .to = TG_UB_LAST) \
    X(BUFFER, bias, .bytes = 4, .to = TG_UB_LAST, .copies = 2)
enum { FLASH_CAP = 1, FLASH_CHANGES = 3 };

/* And where they drop some: vectors of counters, what is of columns, of rows, and constants; see
 * flash_drawing.h. FLASH_LANES: counters at a time, where a core has so many rows, with those of 8
 * rows of a tile among them; FLASH_MOST_DRAWN: scores of a group. */
#define FLASH_DROPS TG_UB_OPTION(0)
#define FLASH_LANES(rows) (16 * ((rows) > FLASH_SMALL_ROWS ? FLASH_ROWS : FLASH_SMALL_ROWS))
#define FLASH_MOST_DRAWN(rows) (4 * FLASH_LANES(rows))
#define FLASH_DRAWING(X, ROWS)                                                                  \
    X(BUFFER, drawn, .per = TG_UB_FIXED, .bytes = 12 * 4 * (FLASH_LANES(ROWS) + 64),            \
      .to = TG_UB_LAST, .when = FLASH_DROPS)                                                    \
    X(BUFFER, columns, .per = TG_UB_COLUMN, .bytes = 14, .to = TG_UB_LAST, .when = FLASH_DROPS) \
    X(BUFFER, rows, .per = TG_UB_FIXED, .bytes = 3 * 36 * (ROWS), .to = TG_UB_LAST,             \
      .when = FLASH_DROPS)                                                                      \
    X(BUFFER, constants, .per = TG_UB_FIXED, .bytes = 23 * 32, .to = TG_UB_LAST,                \
      .when = FLASH_DROPS)

/* A vector core has so many rows at most, with so many floats of sums for each; less in a small UB.
 * FLASH_PIECE: bytes of sums that come in at a time. FLASH_AHEAD: tiles that the cube core is
 * ahead with scores of those whose sums it makes. */
enum {
    FLASH_AHEAD = 2,
    FLASH_SLOTS = FLASH_AHEAD + 1,
    FLASH_ROWS = 64,
    FLASH_SMALL_ROWS = 16,
    FLASH_SUMS = 128,
    FLASH_PIECE = 8192,
    FLASH_MOST_D = 1024
};

/* q, k, v, y: elements from one batch, position and head to the next; lse [batches, heads, queries]
 * may be absent. A task is 2 `core_rows` rows of one batch, of which a vector core has half: of so
 * many queries `together` heads each, which read the same head of k and v. Keys come in tiles of
 * `keys`. work: of each block FLASH_SLOTS of scores, f32, of their exponentials, and of sums whose
 * rows are `pitch` long; rows of the others are `keys` long. negative: scale is -scale.
 * sinks: a number a head, or absent. */
#define FLASH_ATTENTION_FORWARD(X) FLASH_ATTENTION_FORWARD_OF(X, FLASH_ROWS)
#define FLASH_ATTENTION_FORWARD_SMALL(X) FLASH_ATTENTION_FORWARD_OF(X, FLASH_SMALL_ROWS)
#define FLASH_ATTENTION_FORWARD_OF(X, ROWS)                                                   \
    ATTENTION_FORWARD(X)                                                                      \
    FLASH_OPTIONS(X)                                                                          \
    X(MEMORY, sinks, float)                                                                   \
    X(I64, together)                                                                          \
    X(I64, work_block)                                                                        \
    X(BUFFER, s, .bytes = 4, .to = TG_UB_LAST, .copies = 2)                                   \
    X(BUFFER, p, .to = TG_UB_LAST, .copies = 2)                                               \
    X(BUFFER, folded, .per = TG_UB_ROW, .bytes = 512, .to = TG_UB_LAST)                       \
    X(BUFFER, piece, .per = TG_UB_FIXED, .bytes = FLASH_PIECE, .to = TG_UB_LAST, .copies = 2, \
      .bank = TG_UB_BANK_HIGH)                                                                \
    X(BUFFER, sums, .per = TG_UB_FIXED, .bytes = 4 * FLASH_SUMS * (ROWS), .to = TG_UB_LAST,   \
      .bank = TG_UB_BANK_LOW)                                                                 \
    X(BUFFER, lanes, .per = TG_UB_FIXED, .bytes = 256 * (ROWS), .to = TG_UB_LAST)             \
    X(BUFFER, fading, .per = TG_UB_FIXED, .bytes = 32 * (ROWS), .to = TG_UB_LAST,             \
      .copies = FLASH_SLOTS)                                                                  \
    X(BUFFER, total, .per = TG_UB_FIXED, .bytes = 32 * (ROWS), .to = TG_UB_LAST,              \
      .copies = FLASH_SLOTS)                                                                  \
    X(BUFFER, shift, .per = TG_UB_FIXED, .bytes = 32 * (ROWS), .to = TG_UB_LAST)              \
    X(BUFFER, factor, .per = TG_UB_FIXED, .bytes = 32, .to = TG_UB_LAST)                      \
    X(BUFFER, max, .per = TG_UB_FIXED, .bytes = 4 * (ROWS), .to = TG_UB_LAST)                 \
    X(BUFFER, top, .per = TG_UB_FIXED, .bytes = 4 * (ROWS), .to = TG_UB_LAST)                 \
    X(BUFFER, fall, .per = TG_UB_FIXED, .bytes = 4 * (ROWS), .to = TG_UB_LAST)                \
    X(BUFFER, down, .per = TG_UB_FIXED, .bytes = 4 * (ROWS), .to = TG_UB_LAST)                \
    X(BUFFER, log, .per = TG_UB_FIXED, .bytes = 32 * (ROWS), .to = TG_UB_LAST, .copies = 2)   \
    X(BUFFER, sink, .per = TG_UB_FIXED, .bytes = 4 * (ROWS), .to = TG_UB_LAST)                \
    FLASH_DRAWING(X, ROWS)                                                                    \
    FLASH_CHANGES_OF_SCORES(X)

#endif
