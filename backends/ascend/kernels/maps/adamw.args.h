/* adamw.args.h - what the kernel of adamw is given; see asc_args.h. */
#ifndef ADAMW_ARGS_H
#define ADAMW_ARGS_H

#include "shared/asc_args.h"

#define ADAMW_MASTER TG_UB_OPTION(0)    /* the parameters live in `master`, f32 */
#define ADAMW_NO_MASTER TG_UB_OPTION(1) /* they live in `param` */
#define ADAMW_GRAD_SAME TG_UB_OPTION(2) /* grad is of the parameters' type */
#define ADAMW_GRAD_WIDE TG_UB_OPTION(3) /* grad is f32, the parameters are of 16 bits */

/* Steps: 0 copy in, 1 widen and compute, 2 copy out. What is read and written
 * stays in one buffer. */
#define ADAMW(X)                                                                              \
    X(TENSOR, param, ASC_T)                                                                   \
    X(TENSOR, grad, void)                                                                     \
    X(TENSOR, m, float)                                                                       \
    X(TENSOR, v, float)                                                                       \
    X(TENSOR, master, float)                                                                  \
    X(VECTOR, grad_squares, float)                                                            \
    X(GRID, rows, columns, tile_rows, tile_columns)                                           \
    X(I64, grad_f32)                                                                          \
    X(F32, scale)                                                                             \
    X(F32, limit)    /* where grad_squares is larger, gradients are clipped */                \
    X(F32, max_norm) /* of the sign of scale */                                               \
    X(F32, beta1)                                                                             \
    X(F32, rest1) /* 1 - beta1 */                                                             \
    X(F32, beta2)                                                                             \
    X(F32, rest2)                                                                             \
    X(F32, keep) /* 1 - lr weight_decay */                                                    \
    X(F32, step) /* lr / (1 - beta1^step) */                                                  \
    X(F32, root) /* 1 / sqrt(1 - beta2^step) */                                               \
    X(F32, eps)                                                                               \
    X(BUFFER, param, .to = 2, .copies = 2)                                                    \
    X(BUFFER, m, .bytes = 4, .to = 2, .copies = 2, .bank = TG_UB_BANK_LOW)                    \
    X(BUFFER, v, .bytes = 4, .to = 2, .copies = 2, .bank = TG_UB_BANK_LOW)                    \
    X(BUFFER, master, .bytes = 4, .to = 2, .copies = 2, .when = ADAMW_MASTER)                 \
    X(BUFFER, grad, .to = 1, .copies = 2, .when = ADAMW_GRAD_SAME)                            \
    X(BUFFER, grad_wide, .bytes = 4, .to = 1, .copies = 2, .when = ADAMW_GRAD_WIDE)           \
    X(BUFFER, grad32, .bytes = 4, .from = 1, .to = 1, .when = TG_UB_16BIT | ADAMW_GRAD_SAME)  \
    X(BUFFER, param32, .bytes = 4, .from = 1, .to = 1, .when = TG_UB_16BIT | ADAMW_NO_MASTER) \
    X(BUFFER, square, .bytes = 4, .from = 1, .to = 1, .bank = TG_UB_BANK_HIGH)

#endif
