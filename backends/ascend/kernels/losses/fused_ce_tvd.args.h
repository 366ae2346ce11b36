/* fused_ce_tvd.args.h - what the kernels of fused_ce_tvd are given; see asc_args.h. */
#ifndef FUSED_CE_TVD_ARGS_H
#define FUSED_CE_TVD_ARGS_H

#include "softmax_logp.args.h"

enum { CETVD_RING = 4 };       /* buffers of the backward's ring */
enum { CETVD_ROW_LANES = 20 }; /* times 64: what softmax_logp.h keeps of a row of logits */
enum { CETVD_LANES = 32 };     /* times 64: other numbers */
enum { CETVD_GROUPS = 16 };    /* runs of a row's pieces, each of which has a sum of its own */
enum { CETVD_CHUNK = 1536 };   /* elements: what the precise arithmetic takes of a piece */

/* Both directions. share: rows of a block; columns: a plan has one at least. */
#define CETVD_GIVEN(X)                             \
    X(TENSOR, student, ASC_T)                      \
    X(TENSOR, teacher, ASC_T)                      \
    X(VECTOR, target, int64_t)                     \
    X(VECTOR, student_lse, float)                  \
    X(VECTOR, teacher_lse, float)                  \
    X(VECTOR, sigma, float)                        \
    X(GRID, rows, planned_columns, one_row, piece) \
    X(I64, columns)                                \
    X(I64, share)                                  \
    X(I64, ignore_index)

/* behind: pieces of the second pass over a row that come with one of the first over the next; pick:
 * the student's logit of the target, which comes with a row's first piece. Steps: 0 copy in, 1 sums
 * and distances. x, z: a piece of both rows. z is 4 bytes an element as well, said in two so that
 * the planner keeps this order: where x and z share banks of UB, what is computed from both waits
 * for its own writes, and so does what is widened from a buffer of the ring. d, e, t: scratch of a
 * part of a piece. */
#define CETVD_FORWARD(X)                                                                        \
    CETVD_GIVEN(X)                                                                              \
    X(VECTOR, ce, float)                                                                        \
    X(I64, behind)                                                                              \
    X(VECTOR, tvd, float)                                                                       \
    X(BUFFER, x, .bytes = 4, .from = 1, .to = 1, .bank = TG_UB_BANK_LOW)                        \
    X(BUFFER, teacher, .to = 1, .copies = ASC_RING_READ)                                        \
    X(BUFFER, z, .bytes = 2, .to = 1, .copies = 2, .bank = TG_UB_BANK_HIGH)                     \
    X(BUFFER, student, .to = 1, .copies = ASC_RING_READ)                                        \
    X(BUFFER, pick, .per = TG_UB_FIXED, .bytes = 32, .to = 1, .copies = ASC_RING_READ)          \
    X(BUFFER, d, .per = TG_UB_FIXED, .bytes = 4 * CETVD_CHUNK, .to = TG_UB_LAST,                \
      .bank = TG_UB_BANK_HIGH)                                                                  \
    X(BUFFER, e, .per = TG_UB_FIXED, .bytes = 4 * CETVD_CHUNK, .to = TG_UB_LAST,                \
      .bank = TG_UB_BANK_LOW)                                                                   \
    X(BUFFER, t, .per = TG_UB_FIXED, .bytes = 4 * CETVD_CHUNK, .to = TG_UB_LAST,                \
      .bank = TG_UB_BANK_LOW)                                                                   \
    X(BUFFER, groups, .per = TG_UB_FIXED, .bytes = 2 * CETVD_GROUPS * 256, .to = TG_UB_LAST,    \
      .bank = TG_UB_BANK_HIGH)                                                                  \
    X(BUFFER, of_student, .per = TG_UB_FIXED, .bytes = CETVD_ROW_LANES * 256, .to = TG_UB_LAST, \
      .bank = TG_UB_BANK_HIGH)                                                                  \
    X(BUFFER, of_teacher, .per = TG_UB_FIXED, .bytes = CETVD_ROW_LANES * 256, .to = TG_UB_LAST, \
      .bank = TG_UB_BANK_HIGH)                                                                  \
    X(BUFFER, lanes, .per = TG_UB_FIXED, .bytes = CETVD_LANES * 256, .to = TG_UB_LAST,          \
      .bank = TG_UB_BANK_HIGH)

/* Steps: 0 copy in, 1 gradient, 2 copy out. */
#define CETVD_BACKWARD(X)                                                              \
    CETVD_GIVEN(X)                                                                     \
    X(VECTOR, dce, float)                                                              \
    X(VECTOR, dtvd, float)                                                             \
    X(TENSOR, dstudent, ASC_T)                                                         \
    X(BUFFER, student, .to = 2, .copies = CETVD_RING)                                  \
    X(BUFFER, teacher, .to = 2, .copies = CETVD_RING)                                  \
    X(BUFFER, pick, .per = TG_UB_FIXED, .bytes = 32, .to = 2, .copies = CETVD_RING)    \
    X(BUFFER, x, .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_LOW)               \
    X(BUFFER, z, .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_HIGH)              \
    X(BUFFER, e, .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_HIGH)              \
    X(BUFFER, lanes, .per = TG_UB_FIXED, .bytes = CETVD_LANES * 256, .to = TG_UB_LAST, \
      .bank = TG_UB_BANK_HIGH)

#endif
