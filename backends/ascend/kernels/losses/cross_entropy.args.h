/* cross_entropy.args.h - what the kernels of cross_entropy are given; see asc_args.h. */
#ifndef CROSS_ENTROPY_ARGS_H
#define CROSS_ENTROPY_ARGS_H

#include "shared/asc_args.h"

/* flags: what is asked for */
enum {
    CE_MEAN = 1,     /* divide by the counts */
    CE_EACH = 2,     /* one dloss a row */
    CE_TOKEN = 4,    /* token_scaling */
    CE_ARGMAX = 8,   /* accuracy or predicted is wanted */
    CE_SAVED = 16,   /* backward: lse is given */
    CE_COUNTED = 32, /* the counts n and D are there */
    CE_CLASSES = 64, /* and W; else it is the number of classes */
    CE_TRIED = 128,  /* lse is given, and a row is summed again where its rounding would tell */
    CE_IF_ANY = 256  /* nothing is written if the counts say that all rows are ignored */
};

/* out: the type of dlogits, that of logits or one of 16 bits beside f32 */
enum { CE_OUT_SAME, CE_OUT_BF16, CE_OUT_F16 };

/* A block's counts: n, D and W in COUNT_BYTES; of at most MOST_COUNTS blocks. */
enum { CE_COUNT_BYTES = 32, CE_MOST_COUNTS = 64 };
enum { CE_BATCH = 64 };      /* rows whose results wait, of those in pieces */
enum { CE_MOST_ROWS = 128 }; /* of a tile of whole rows */
/* Buffers of CE_BATCH or CE_MOST_ROWS floats in what the kernels call lanes; see
 * cross_entropy_row.h. */
enum { CE_ROOM_FOR_LANES = 32 };
enum { CE_MOST_GATHERED = 8191 }; /* classes whose weights are gathered from UB */

/* Both kernels of rows, behind their logits. loss, z_loss, accuracy: of every row, or where they
 * are reduced and a block adds up its rows, of every block; or NULL. ..._rows, ..._group: see
 * asc_groups. scale: logits are multiplied by it; where it is not 1 there is no softcap, and no
 * CE_SAVED. unit: what the loss, and so its gradient, are multiplied by. */
#define CE_GIVEN(X)                \
    X(TENSOR, dlogits, void)       \
    X(VECTOR, target, int64_t)     \
    X(VECTOR, class_weight, float) \
    X(VECTOR, dloss, float)        \
    X(MEMORY, counts, float)       \
    X(VECTOR, lse, float)          \
    X(MEMORY, loss, float)         \
    X(MEMORY, z_loss, float)       \
    X(MEMORY, accuracy, float)     \
    X(VECTOR, predicted, int64_t)  \
    X(I64, flags)                  \
    X(I64, ignore_index)           \
    X(F32, smoothing)              \
    X(F32, z)                      \
    X(F32, softcap)                \
    X(F32, grad_scale)             \
    X(F32, scale)                  \
    X(F32, unit)                   \
    X(I64, logits_rows)            \
    X(I64, logits_group)           \
    X(I64, dlogits_rows)           \
    X(I64, dlogits_group)          \
    X(I64, writes)                 \
    X(I64, count_blocks)

#define CE_WEIGHTED TG_UB_OPTION(0) /* weights take part element by element */
#define CE_CAPPED TG_UB_OPTION(1)
#define CE_SCRATCH TG_UB_OPTION(2) /* either */
#define CE_BEST_CLASS TG_UB_OPTION(3)
#define CE_WRITES TG_UB_OPTION(4) /* one of these two */
#define CE_READS_ALONE TG_UB_OPTION(5)

/* share: rows of a block; classes: columns, which a plan has at least one of; reads,
 * writes: see asc_ring.h; roundings: as cross_entropy_roundings() has it. Steps: 0 copy in, 1
 * maxima and sums of all pieces, 2 gradient and copy out of all pieces. */
#define CROSS_ENTROPY(X)                                                                      \
    X(TENSOR, logits, void)                                                                   \
    CE_GIVEN(X)                                                                               \
    X(GRID, rows, planned_columns, one_row, piece)                                            \
    X(I64, columns)                                                                           \
    X(I64, share)                                                                             \
    X(I64, reads)                                                                             \
    X(I64, out)                                                                               \
    X(F32, roundings)                                                                         \
    X(BUFFER, logits, .to = 2, .copies = ASC_RING, .bank = TG_UB_BANK_LOW, .when = CE_WRITES) \
    X(BUFFER, logits_read, .to = 1, .copies = ASC_RING_READ, .bank = TG_UB_BANK_LOW,          \
      .when = CE_READS_ALONE)                                                                 \
    X(BUFFER, class_weight, .bytes = 4, .to = 2, .copies = ASC_RING, .bank = TG_UB_BANK_HIGH, \
      .when = CE_WEIGHTED)                                                                    \
    X(BUFFER, pick, .per = TG_UB_FIXED, .bytes = 32, .to = 2, .copies = ASC_RING)             \
    X(BUFFER, e, .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_LOW)                      \
    X(BUFFER, t, .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_HIGH, .when = CE_SCRATCH) \
    X(BUFFER, s, .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_HIGH, .when = CE_CAPPED)  \
    X(BUFFER, maxima, .bytes = 4, .every = 8, .from = 1, .to = 1, .when = CE_BEST_CLASS)      \
    X(BUFFER, pairs, .bytes = 8, .every = 512, .from = 1, .to = 1, .when = CE_BEST_CLASS)     \
    X(BUFFER, lanes, .per = TG_UB_FIXED, .bytes = CE_ROOM_FOR_LANES * CE_BATCH * 4,           \
      .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH)                                              \
    X(BUFFER, counts, .per = TG_UB_FIXED, .bytes = CE_MOST_COUNTS * CE_COUNT_BYTES)           \
    X(BUFFER, predictions, .per = TG_UB_FIXED, .bytes = CE_BATCH * 8, .to = TG_UB_LAST)

#define CE_ROWS_WRITES TG_UB_OPTION(0)
#define CE_ROWS_CLASS_WEIGHT TG_UB_OPTION(1)
#define CE_ROWS_LIMIT TG_UB_OPTION(2) /* weights take part element by element */
#define CE_ROWS_SCRATCH TG_UB_OPTION(3)
#define CE_ROWS_CAPPED TG_UB_OPTION(4)
#define CE_ROWS_BEST_CLASS TG_UB_OPTION(5)

/* Steps: 0 copy in, 1 maxima, exponentials and sums, 2 gradient, 3 copy out. */
#define CROSS_ENTROPY_ROWS(X)                                                                      \
    X(TENSOR, logits, ASC_T)                                                                       \
    CE_GIVEN(X)                                                                                    \
    X(GRID, rows, columns, tile_rows, tile_columns)                                                \
    X(BUFFER, logits, .to = 2, .copies = 2, .bank = TG_UB_BANK_LOW)                                \
    X(BUFFER, e, .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT)      \
    X(BUFFER, dlogits, .from = 2, .to = 3, .copies = 2, .bank = TG_UB_BANK_LOW,                    \
      .when = CE_ROWS_WRITES)                                                                      \
    X(BUFFER, fold, .per = TG_UB_ROW, .bytes = 256, .from = 1, .to = 1, .bank = TG_UB_BANK_HIGH)   \
    X(BUFFER, eighth, .per = TG_UB_ROW, .bytes = 32, .from = 1, .to = 1, .align = 256)             \
    X(BUFFER, block, .per = TG_UB_ROW, .bytes = 32, .from = 1, .to = 2, .align = 256)              \
    X(BUFFER, bias, .per = TG_UB_ROW, .bytes = 32, .from = 2, .to = 2, .align = 256,               \
      .when = CE_ROWS_WRITES)                                                                      \
    X(BUFFER, at_target, .per = TG_UB_ROW, .bytes = 32, .from = 2, .to = 2, .align = 256,          \
      .when = CE_ROWS_WRITES)                                                                      \
    X(BUFFER, t, .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_HIGH, .when = CE_ROWS_SCRATCH) \
    X(BUFFER, s, .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_HIGH, .when = CE_ROWS_CAPPED)  \
    X(BUFFER, levels, .bytes = 8, .every = 8, .to = TG_UB_LAST, .when = CE_ROWS_BEST_CLASS)        \
    X(BUFFER, target, .per = TG_UB_ROW, .bytes = 8, .to = 2, .copies = 2)                          \
    X(BUFFER, y, .per = TG_UB_ROW, .bytes = 2, .from = 1, .to = 2, .copies = 2)                    \
    X(BUFFER, predicted, .per = TG_UB_ROW, .bytes = 8, .copies = 2, .when = CE_ROWS_BEST_CLASS)    \
    X(BUFFER, number, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST)                              \
    X(BUFFER, class_weight, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST,                     \
      .when = CE_ROWS_CLASS_WEIGHT)                                                                \
    X(BUFFER, limit, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST, .when = CE_ROWS_LIMIT)     \
    X(BUFFER, lanes, .per = TG_UB_FIXED, .bytes = CE_ROOM_FOR_LANES * CE_MOST_ROWS * 4,            \
      .to = TG_UB_LAST, .copies = 2)                                                               \
    X(BUFFER, sums, .per = TG_UB_FIXED, .bytes = 3 * CE_MOST_ROWS * 4, .to = TG_UB_LAST)           \
    X(BUFFER, counts, .per = TG_UB_FIXED, .bytes = CE_MOST_COUNTS * CE_COUNT_BYTES)

#define CE_GATHERS TG_UB_OPTION(0)

/* Sums over rows and classes. */
#define CE_SUM_BUFFERS(X)                                                                         \
    X(BUFFER, x, .bytes = 4)                                                                      \
    X(BUFFER, kept, .bytes = 4)                                                                   \
    X(BUFFER, index, .bytes = 4, .when = CE_GATHERS)                                              \
    X(BUFFER, target, .bytes = 8)                                                                 \
    X(BUFFER, weights, .per = TG_UB_FIXED, .bytes = (CE_MOST_GATHERED + 1) * 4, .to = TG_UB_LAST, \
      .when = CE_GATHERS)                                                                         \
    X(BUFFER, lanes, .per = TG_UB_FIXED, .bytes = 3 * 256, .to = TG_UB_LAST)                      \
    X(BUFFER, value, .per = TG_UB_FIXED, .bytes = CE_MOST_COUNTS * CE_COUNT_BYTES, .to = TG_UB_LAST)

/* share, class_share: rows and classes of a block; class_share 0: no W. gathers: there is room for
 * the weights of all classes. */
#define CROSS_ENTROPY_COUNT(X)                    \
    X(VECTOR, target, int64_t)                    \
    X(VECTOR, class_weight, float)                \
    X(MEMORY, counts, float)                      \
    X(GRID, one, planned_columns, one_row, piece) \
    X(I64, rows)                                  \
    X(I64, share)                                 \
    X(I64, classes)                               \
    X(I64, class_share)                           \
    X(I64, gathers)                               \
    X(I64, ignore_index)                          \
    CE_SUM_BUFFERS(X)

/* losses, z_losses, rights: of each row, or of each block; accuracy is a mean over the rows
 * that are not ignored. */
#define CROSS_ENTROPY_FINISH(X)                   \
    X(MEMORY, losses, float)                      \
    X(MEMORY, z_losses, float)                    \
    X(MEMORY, rights, float)                      \
    X(MEMORY, counts, float)                      \
    X(VECTOR, loss, float)                        \
    X(VECTOR, z_loss, float)                      \
    X(VECTOR, accuracy, float)                    \
    X(GRID, one, planned_columns, one_row, piece) \
    X(I64, rows)                                  \
    X(I64, count_blocks)                          \
    CE_SUM_BUFFERS(X)

/* Rows of few classes, a lane a row: without class weights, softcap and argmax. each: dloss of
 * every row; saved: lse, to be read.
 * loss, z_loss: of every row; losses, z_losses: of every block. Steps: 0 copy in, 1 transpose, 2
 * arithmetic, 3 transpose back, 4 copy out. */
#define CROSS_ENTROPY_SHORT(X)                                                                \
    X(TENSOR, logits, ASC_T)                                                                  \
    X(TENSOR, dlogits, ASC_T)                                                                 \
    X(VECTOR, target, int64_t)                                                                \
    X(VECTOR, dloss, float)                                                                   \
    X(VECTOR, each, float)                                                                    \
    X(VECTOR, saved, float)                                                                   \
    X(MEMORY, counts, float)                                                                  \
    X(VECTOR, lse, float)                                                                     \
    X(MEMORY, loss, float)                                                                    \
    X(MEMORY, z_loss, float)                                                                  \
    X(MEMORY, losses, float)                                                                  \
    X(MEMORY, z_losses, float)                                                                \
    X(I64, flags)                                                                             \
    X(I64, ignore_index)                                                                      \
    X(F32, smoothing)                                                                         \
    X(F32, z)                                                                                 \
    X(F32, grad_scale)                                                                        \
    X(F32, scale)                                                                             \
    X(F32, unit)                                                                              \
    X(I64, count_blocks)                                                                      \
    ASC_SHORT_PLANNED(X)                                                                      \
    X(BUFFER, logits, .to = 1, .copies = 2)                                                   \
    X(BUFFER, logits32, .bytes = 4, .from = 1, .to = 3, .bank = TG_UB_BANK_LOW)               \
    X(BUFFER, others, .bytes = 4, .from = 2, .to = 2, .bank = TG_UB_BANK_HIGH)                \
    X(BUFFER, target, .per = TG_UB_COLUMN, .bytes = 8, .to = 2, .copies = 2)                  \
    X(BUFFER, each, .per = TG_UB_COLUMN, .bytes = 4, .to = 2, .copies = 2)                    \
    X(BUFFER, saved, .per = TG_UB_COLUMN, .bytes = 4, .to = 2, .copies = 2)                   \
    X(BUFFER, lse, .per = TG_UB_COLUMN, .bytes = 4, .from = 2, .to = 4, .copies = 2)          \
    X(BUFFER, loss, .per = TG_UB_COLUMN, .bytes = 4, .from = 2, .to = 4, .copies = 2)         \
    X(BUFFER, z_loss, .per = TG_UB_COLUMN, .bytes = 4, .from = 2, .to = 4, .copies = 2)       \
    X(BUFFER, numbers, .per = TG_UB_COLUMN, .bytes = CE_ROOM_FOR_LANES * 4, .to = TG_UB_LAST) \
    X(BUFFER, first, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST)                       \
    X(BUFFER, mask, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST)                        \
    X(BUFFER, sums, .per = TG_UB_FIXED, .bytes = 2 * 256, .to = TG_UB_LAST)                   \
    X(BUFFER, totals, .per = TG_UB_FIXED, .bytes = 32, .to = TG_UB_LAST, .copies = 2)         \
    X(BUFFER, counts, .per = TG_UB_FIXED, .bytes = CE_MOST_COUNTS * CE_COUNT_BYTES,           \
      .to = TG_UB_LAST)                                                                       \
    X(BUFFER, dlogits, .from = 3, .to = 4, .copies = 2, .when = CE_ROWS_WRITES)

#endif
