/* muon.args.h - what the kernels of muon_momentum and muon_update are given; see asc_args.h. */
#ifndef MUON_ARGS_H
#define MUON_ARGS_H

#include "shared/asc_args.h"

/* grad, or m, is of the update's type, or f32 beside 16 bits */
#define MUON_GRAD_SAME TG_UB_OPTION(0)
#define MUON_GRAD_WIDE TG_UB_OPTION(1)
#define MUON_M_SAME TG_UB_OPTION(2)
#define MUON_M_WIDE TG_UB_OPTION(3)
/* the parameters live in `master`, f32, or in `param` */
#define MUON_MASTER TG_UB_OPTION(0)
#define MUON_NO_MASTER TG_UB_OPTION(1)

/* Steps: 0 copy in, 1 widen and compute, 2 copy out. What is read and written stays in one
 * buffer. Of two sources of one instruction one lies LOW, one HIGH. */
#define MUON_MOMENTUM(X)                                                                   \
    X(TENSOR, grad, void)                                                                  \
    X(TENSOR, m, void)                                                                     \
    X(TENSOR, update, ASC_T)                                                               \
    X(VECTOR, grad_squares, float)                                                         \
    X(GRID, rows, columns, tile_rows, tile_columns)                                        \
    X(I64, grad_f32)                                                                       \
    X(I64, m_f32)                                                                          \
    X(I64, plain)                                                                          \
    X(F32, scale)                                                                          \
    X(F32, limit)    /* where grad_squares is larger, gradients are clipped */             \
    X(F32, max_norm) /* of the sign of scale */                                            \
    X(F32, momentum)                                                                       \
    X(F32, rest) /* 1 - momentum */                                                        \
    X(BUFFER, m, .to = 2, .copies = 2, .bank = TG_UB_BANK_LOW, .when = MUON_M_SAME)        \
    X(BUFFER, m_wide, .bytes = 4, .to = 2, .copies = 2, .bank = TG_UB_BANK_LOW,            \
      .when = MUON_M_WIDE)                                                                 \
    X(BUFFER, grad, .to = 1, .copies = 2, .bank = TG_UB_BANK_HIGH, .when = MUON_GRAD_SAME) \
    X(BUFFER, grad_wide, .bytes = 4, .to = 1, .copies = 2, .bank = TG_UB_BANK_HIGH,        \
      .when = MUON_GRAD_WIDE)                                                              \
    X(BUFFER, update, .from = 1, .to = 2, .copies = 2, .bank = TG_UB_BANK_LOW)             \
    X(BUFFER, m32, .bytes = 4, .from = 1, .to = 1, .bank = TG_UB_BANK_LOW,                 \
      .when = TG_UB_16BIT | MUON_M_SAME)                                                   \
    X(BUFFER, grad32, .bytes = 4, .from = 1, .to = 1, .bank = TG_UB_BANK_HIGH,             \
      .when = TG_UB_16BIT | MUON_GRAD_SAME)                                                \
    X(BUFFER, update32, .bytes = 4, .from = 1, .to = 1, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT)

#define MUON_UPDATE(X)                                                           \
    X(TENSOR, param, ASC_T)                                                      \
    X(TENSOR, update, ASC_T)                                                     \
    X(TENSOR, master, float)                                                     \
    X(VECTOR, grad_squares, float)                                               \
    X(GRID, rows, columns, tile_rows, tile_columns)                              \
    X(F32, keep) /* 1 - lr weight_decay */                                       \
    X(F32, rate) /* lr factor */                                                 \
    X(BUFFER, param, .to = 2, .copies = 2, .bank = TG_UB_BANK_LOW)               \
    X(BUFFER, master, .bytes = 4, .to = 2, .copies = 2, .bank = TG_UB_BANK_LOW,  \
      .when = MUON_MASTER)                                                       \
    X(BUFFER, update, .to = 1, .copies = 2, .bank = TG_UB_BANK_HIGH)             \
    X(BUFFER, param32, .bytes = 4, .from = 1, .to = 1, .bank = TG_UB_BANK_LOW,   \
      .when = TG_UB_16BIT | MUON_NO_MASTER)                                      \
    X(BUFFER, update32, .bytes = 4, .from = 1, .to = 1, .bank = TG_UB_BANK_HIGH, \
      .when = TG_UB_16BIT)

#endif
