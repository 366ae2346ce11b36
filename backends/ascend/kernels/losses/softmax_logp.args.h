/* softmax_logp.args.h - what the kernels of softmax_logp are given; see asc_args.h. */
#ifndef SOFTMAX_LOGP_ARGS_H
#define SOFTMAX_LOGP_ARGS_H

#include "cross_entropy.args.h"

/* Named classes, those of ids and the target, that are looked at together. */
enum { LOGP_NAMES = 32 };
/* Buffers of 64 floats; see softmax_logp.h. */
enum { LOGP_ROOM_FOR_LANES = 48 };

#define LOGP_BEST TG_UB_OPTION(0) /* the largest class is asked for */

/* Both directions. slice: other classes are elsewhere, the logits are those of classes from `start`
 * on. share: rows of a block; reads, writes: see asc_ring.h; columns: a plan has one at least. */
#define LOGP_GIVEN(X)                              \
    X(TENSOR, logits, ASC_T)                       \
    X(VECTOR, target, int64_t)                     \
    X(VECTOR, ids, int64_t)                        \
    X(GRID, rows, planned_columns, one_row, piece) \
    X(I64, columns)                                \
    X(I64, nids)                                   \
    X(I64, share)                                  \
    X(I64, ignore_index)                           \
    X(I64, start)                                  \
    X(I64, slice)                                  \
    X(F32, softcap)                                \
    X(F32, temperature)

/* e, t, s: scratch of a piece. picks: the logits of the named classes, a block each; more: the same
 * of some of them, where they are too many for that. */
#define LOGP_BUFFERS(X)                                                                        \
    X(BUFFER, picks, .per = TG_UB_FIXED, .bytes = 32 * LOGP_NAMES, .to = TG_UB_LAST,           \
      .copies = ASC_RING)                                                                      \
    X(BUFFER, more, .per = TG_UB_FIXED, .bytes = 32 * LOGP_NAMES, .to = TG_UB_LAST)            \
    X(BUFFER, wide, .per = TG_UB_FIXED, .bytes = 64 * LOGP_NAMES, .to = TG_UB_LAST)            \
    X(BUFFER, e, .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_LOW)                       \
    X(BUFFER, t, .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_HIGH)                      \
    X(BUFFER, s, .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_LOW)                       \
    X(BUFFER, lanes, .per = TG_UB_FIXED, .bytes = LOGP_ROOM_FOR_LANES * 256, .to = TG_UB_LAST, \
      .bank = TG_UB_BANK_HIGH)

/* Steps: 0 copy in, 1 sums of all pieces, and of the largest class. */
#define SOFTMAX_LOGP_FORWARD(X)                                                                \
    LOGP_GIVEN(X)                                                                              \
    X(VECTOR, logp, float)                                                                     \
    X(VECTOR, lse, float)                                                                      \
    X(VECTOR, entropy, float)                                                                  \
    X(VECTOR, selected, float)                                                                 \
    X(VECTOR, mean_logits, float)                                                              \
    X(VECTOR, log_sum_sq_probs, float)                                                         \
    X(VECTOR, predicted, int64_t)                                                              \
    LOGP_BUFFERS(X)                                                                            \
    X(BUFFER, logits, .to = 1, .copies = ASC_RING_READ, .bank = TG_UB_BANK_LOW)                \
    X(BUFFER, out, .per = TG_UB_FIXED, .bytes = 4 * LOGP_NAMES, .to = TG_UB_LAST, .copies = 2) \
    X(BUFFER, predictions, .per = TG_UB_FIXED, .bytes = CE_BATCH * 8, .to = TG_UB_LAST)        \
    X(BUFFER, maxima, .bytes = 4, .every = 8, .from = 1, .to = 1, .when = LOGP_BEST)           \
    X(BUFFER, pairs, .bytes = 8, .every = 512, .from = 1, .to = 1, .when = LOGP_BEST)

/* Steps: 0 copy in, 1 sums of all pieces, 2 gradient and copy out of all pieces. */
#define SOFTMAX_LOGP_BACKWARD(X) \
    LOGP_GIVEN(X)                \
    X(TENSOR, dlogits, void)     \
    X(VECTOR, lse, float)        \
    X(VECTOR, entropy, float)    \
    X(VECTOR, dlogp, float)      \
    X(VECTOR, dentropy, float)   \
    X(VECTOR, dselected, float)  \
    X(F32, grad_scale)           \
    X(I64, reads)                \
    X(I64, out)                  \
    LOGP_BUFFERS(X)              \
    X(BUFFER, logits, .to = 2, .copies = ASC_RING, .bank = TG_UB_BANK_LOW)

#endif
