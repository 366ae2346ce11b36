/* softmax_kl_div.args.h - what the kernel of softmax_kl_div is given; see asc_args.h. */
#ifndef SOFTMAX_KL_DIV_ARGS_H
#define SOFTMAX_KL_DIV_ARGS_H

#include "terms.args.h"

enum { SKL_RING = 4 };   /* buffers of its ring */
enum { SKL_LANES = 16 }; /* times 64: numbers of a row */

/* Bytes of an element of the logits and one of the target. */
#define SKL_BYTES_4 TG_UB_OPTION(0)
#define SKL_BYTES_6 TG_UB_OPTION(1)
#define SKL_BYTES_8 TG_UB_OPTION(2)

/* target_type, out: ASC_ANY_ types; labels: of the rows, of which those of ignore_index count as
 * nothing; counts: of the others, a part from each of count_blocks; sums: this block's part of the
 * sum of all losses. scale: 1 / temperature; factor: of the gradient; least: what a logarithm is
 * taken of. behind: a row is written while the next is read. pieces: of logits, and behind them of
 * the target. Steps: 0 copy in, 1 sums of all pieces, 2 gradient and copy out of all pieces.
 *
 * a is written while u or v is read, which are folded into the lanes: in this order they lie in
 * other banks, where elements have 16 bits. */
#define SOFTMAX_KL_DIV(X)                                                                \
    X(VECTOR, dloss, float)                                                              \
    X(MEMORY, labels, int64_t)                                                           \
    X(MEMORY, counts, float)                                                             \
    X(MEMORY, sums, float)                                                               \
    X(I64, ignore_index)                                                                 \
    X(I64, count_blocks)                                                                 \
    X(F32, scale)                                                                        \
    X(F32, factor)                                                                       \
    X(F32, least)                                                                        \
    X(TENSOR, logits, void)                                                              \
    X(TENSOR, target, void)                                                              \
    X(TENSOR, dlogits, void)                                                             \
    X(I64, target_type)                                                                  \
    X(I64, out)                                                                          \
    X(I64, behind)                                                                       \
    X(GRID, rows, columns, one_row, piece)                                               \
    X(BUFFER, u, .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_LOW)                 \
    X(BUFFER, v, .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_LOW)                 \
    X(BUFFER, pieces, .bytes = 4, .to = 2, .copies = SKL_RING, .when = SKL_BYTES_4)      \
    X(BUFFER, pieces_of_6, .bytes = 6, .to = 2, .copies = SKL_RING, .when = SKL_BYTES_6) \
    X(BUFFER, pieces_of_8, .bytes = 8, .to = 2, .copies = SKL_RING, .when = SKL_BYTES_8) \
    X(BUFFER, a, .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_HIGH)                \
    X(BUFFER, lanes, .per = TG_UB_FIXED, .bytes = SKL_LANES * 256, .to = TG_UB_LAST,     \
      .bank = TG_UB_BANK_HIGH)                                                           \
    X(BUFFER, counted, .per = TG_UB_FIXED, .bytes = 4096, .to = TG_UB_LAST)

#endif
