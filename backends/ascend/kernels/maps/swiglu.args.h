/* swiglu.args.h - what the kernels of swiglu are given; see asc_args.h. Of two sources of one
 * instruction one lies LOW, one HIGH. */
#ifndef SWIGLU_ARGS_H
#define SWIGLU_ARGS_H

#include "shared/asc_args.h"

/* Steps: 0 copy in, 1 widen, 2 exponents, 3 quotient, 4 products, 5 copy out. y lies where gate
 * was; for f32 gate serves as gate32. */
#define SWIGLU_FORWARD(X)                                                                          \
    X(TENSOR, gate, ASC_T)                                                                         \
    X(TENSOR, up, ASC_T)                                                                           \
    X(TENSOR, y, ASC_T)                                                                            \
    X(GRID, rows, columns, tile_rows, tile_columns)                                                \
    X(F32, gate_multiplier)                                                                        \
    X(F32, down_multiplier)                                                                        \
    X(BUFFER, up, .to = 4, .copies = 2, .bank = TG_UB_BANK_HIGH)                                   \
    X(BUFFER, gate, .to = 5, .copies = 2, .bank = TG_UB_BANK_LOW)                                  \
    X(BUFFER, gate32, .bytes = 4, .from = 1, .to = 5, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT) \
    X(BUFFER, e, .bytes = 4, .from = 2, .to = 5, .bank = TG_UB_BANK_LOW)                           \
    X(BUFFER, h, .bytes = 4, .from = 2, .to = 5, .bank = TG_UB_BANK_HIGH)

#define SWIGLU_GRADIENTS(X) \
    X(TENSOR, dy, ASC_T)    \
    X(TENSOR, gate, ASC_T)  \
    X(TENSOR, up, ASC_T)    \
    X(TENSOR, dgate, ASC_T) \
    X(TENSOR, dup, ASC_T)

#define SWIGLU_GRADIENT_BUFFERS(X)                                                                 \
    X(BUFFER, dy, .to = 4, .copies = 2, .bank = TG_UB_BANK_LOW)                                    \
    X(BUFFER, gate, .to = 4, .copies = 2, .bank = TG_UB_BANK_LOW)                                  \
    X(BUFFER, up, .to = 4, .copies = 2, .bank = TG_UB_BANK_HIGH)                                   \
    X(BUFFER, dgate, .from = 4, .to = 5, .copies = 2)                                              \
    X(BUFFER, dup, .from = 4, .to = 5, .copies = 2)                                                \
    X(BUFFER, dy32, .bytes = 4, .from = 1, .to = 5, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT)   \
    X(BUFFER, gate32, .bytes = 4, .from = 1, .to = 5, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT) \
    X(BUFFER, up32, .bytes = 4, .from = 1, .to = 4, .bank = TG_UB_BANK_HIGH, .when = TG_UB_16BIT)

/* Steps: 0 copy in, 1 scale (and widen), 2 exponents, 3 derivatives, 4 quotients, 5 copy out. */
#define SWIGLU_GRADIENT_STEPS(X)                                          \
    X(F32, gate_multiplier)                                               \
    X(F32, down_multiplier)                                               \
    SWIGLU_GRADIENT_BUFFERS(X)                                            \
    X(BUFFER, h, .bytes = 4, .from = 2, .to = 3, .bank = TG_UB_BANK_HIGH) \
    X(BUFFER, k, .bytes = 4, .from = 2, .to = 4, .bank = TG_UB_BANK_LOW)  \
    X(BUFFER, e, .bytes = 4, .from = 2, .to = 4, .bank = TG_UB_BANK_HIGH)

#define SWIGLU_BACKWARD(X)                          \
    SWIGLU_GRADIENTS(X)                             \
    X(GRID, rows, columns, tile_rows, tile_columns) \
    SWIGLU_GRADIENT_STEPS(X)

/* With the forward's result. */
#define SWIGLU_RESULT_BUFFERS(X)                  \
    X(BUFFER, y, .from = 1, .to = 5, .copies = 2) \
    X(BUFFER, result, .bytes = 4, .from = 1, .to = 5, .when = TG_UB_16BIT)

#define SWIGLU_BACKWARD_Y(X)                        \
    SWIGLU_GRADIENTS(X)                             \
    X(TENSOR, y, ASC_T)                             \
    X(GRID, rows, columns, tile_rows, tile_columns) \
    SWIGLU_GRADIENT_STEPS(X)                        \
    SWIGLU_RESULT_BUFFERS(X)

/* Of limits, alpha and an offset of up. */
#define SWIGLU_LIMITS(X)    \
    X(F32, gate_multiplier) \
    X(F32, down_multiplier) \
    X(F32, limit)           \
    X(F32, alpha)           \
    X(F32, up_offset)

/* Steps as in SWIGLU_FORWARD. */
#define SWIGLU_FORWARD_LIMITED(X)                                                                  \
    X(TENSOR, gate, ASC_T)                                                                         \
    X(TENSOR, up, ASC_T)                                                                           \
    X(TENSOR, y, ASC_T)                                                                            \
    X(GRID, rows, columns, tile_rows, tile_columns)                                                \
    SWIGLU_LIMITS(X)                                                                               \
    X(BUFFER, gate, .to = 4, .copies = 2, .bank = TG_UB_BANK_LOW)                                  \
    X(BUFFER, up, .to = 3, .copies = 2, .bank = TG_UB_BANK_HIGH)                                   \
    X(BUFFER, y, .from = 4, .to = 5, .copies = 2)                                                  \
    X(BUFFER, gate32, .bytes = 4, .from = 1, .to = 5, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT) \
    X(BUFFER, up32, .bytes = 4, .from = 1, .to = 3, .bank = TG_UB_BANK_HIGH, .when = TG_UB_16BIT)  \
    X(BUFFER, h, .bytes = 4, .from = 2, .to = 3, .bank = TG_UB_BANK_HIGH)                          \
    X(BUFFER, e, .bytes = 4, .from = 2, .to = 4, .bank = TG_UB_BANK_HIGH)

/* What gradients with limits need beside dy, gate and up: see the kernel. */
#define SWIGLU_GRADIENT_SCRATCH(X)                                        \
    X(BUFFER, h, .bytes = 4, .from = 1, .to = 4, .bank = TG_UB_BANK_HIGH) \
    X(BUFFER, k, .bytes = 4, .from = 1, .to = 4, .bank = TG_UB_BANK_LOW)  \
    X(BUFFER, e, .bytes = 4, .from = 1, .to = 4, .bank = TG_UB_BANK_HIGH) \
    X(BUFFER, c, .bytes = 4, .from = 1, .to = 4, .bank = TG_UB_BANK_LOW)  \
    X(BUFFER, v, .bytes = 4, .from = 1, .to = 4, .bank = TG_UB_BANK_HIGH)

#define SWIGLU_LIMITED_STEPS(X) \
    SWIGLU_LIMITS(X)            \
    SWIGLU_GRADIENT_BUFFERS(X)  \
    SWIGLU_GRADIENT_SCRATCH(X)

#define SWIGLU_BACKWARD_LIMITED(X)                  \
    SWIGLU_GRADIENTS(X)                             \
    X(GRID, rows, columns, tile_rows, tile_columns) \
    SWIGLU_LIMITED_STEPS(X)

/* With the forward's result. */
#define SWIGLU_BACKWARD_LIMITED_Y(X)                \
    SWIGLU_GRADIENTS(X)                             \
    X(TENSOR, y, ASC_T)                             \
    X(GRID, rows, columns, tile_rows, tile_columns) \
    SWIGLU_LIMITED_STEPS(X)                         \
    SWIGLU_RESULT_BUFFERS(X)

/* Gate and up are neighbours in one tensor, and so are their gradients; y of the backward may be
 * NULL. The grid is that of y. */
#define SWIGLU_FORWARD_PAIRS(X)                     \
    X(TENSOR, y, ASC_T)                             \
    X(TENSOR, pairs, ASC_T)                         \
    X(GRID, rows, columns, tile_rows, tile_columns) \
    SWIGLU_LIMITS(X)                                \
    X(BUFFER, y, .from = 2, .to = 3, .copies = 2)   \
    X(BUFFER, h, .bytes = 4, .from = 2, .to = 2)    \
    X(BUFFER, e, .bytes = 4, .from = 2, .to = 2)    \
    ASC_PAIR_BUFFERS(X)

#define SWIGLU_BACKWARD_PAIRS(X)                                                    \
    X(TENSOR, dy, ASC_T)                                                            \
    X(TENSOR, pairs, ASC_T)                                                         \
    X(TENSOR, results, ASC_T)                                                       \
    X(TENSOR, y, ASC_T)                                                             \
    X(GRID, rows, columns, tile_rows, tile_columns)                                 \
    SWIGLU_LIMITS(X)                                                                \
    X(BUFFER, dy, .to = 3, .copies = 2)                                             \
    X(BUFFER, y, .from = 1, .to = 5, .copies = 2)                                   \
    X(BUFFER, dy32, .bytes = 4, .from = 1, .to = TG_UB_LAST, .when = TG_UB_16BIT)   \
    X(BUFFER, result, .bytes = 4, .from = 1, .to = TG_UB_LAST, .when = TG_UB_16BIT) \
    SWIGLU_GRADIENT_SCRATCH(X)                                                      \
    ASC_PAIR_BUFFERS(X)                                                             \
    ASC_PAIR_RESULTS(X)

/* Short rows of gate and up side by side, as one of `columns`; so are dgate and dup. The
 * others have half the columns. Steps: 0 copy in, 1 transpose, 2 arithmetic, 3 transpose
 * back, 4 copy out. */
#define SWIGLU_HALVES(X)                              \
    ASC_SHORT_PLANNED(X)                              \
    ASC_HALF_BUFFERS(X)                               \
    X(BUFFER, gate, .to = 1, .copies = 2)             \
    X(BUFFER, gate32, .bytes = 4, .from = 1, .to = 3) \
    X(BUFFER, h, .bytes = 2, .from = 2, .to = 2)      \
    X(BUFFER, e, .bytes = 2, .from = 2, .to = 2)

#define SWIGLU_FORWARD_SHORT(X) \
    X(MEMORY, gate, ASC_T)      \
    X(TENSOR, y, ASC_T)         \
    X(F32, gate_multiplier)     \
    X(F32, down_multiplier)     \
    SWIGLU_HALVES(X)            \
    X(BUFFER, y, .from = 3, .to = 4, .copies = 2)

#define SWIGLU_BACKWARD_SHORT(X)                      \
    X(TENSOR, dy, ASC_T)                              \
    X(MEMORY, gate, ASC_T)                            \
    X(MEMORY, dgate, ASC_T)                           \
    X(F32, gate_multiplier)                           \
    X(F32, down_multiplier)                           \
    SWIGLU_HALVES(X)                                  \
    X(BUFFER, dy, .to = 2, .copies = 2)               \
    X(BUFFER, dgate, .from = 3, .to = 4, .copies = 2) \
    X(BUFFER, dy32, .bytes = 2, .from = 2, .to = 2)   \
    X(BUFFER, k, .bytes = 2, .from = 2, .to = 2)      \
    X(BUFFER, d32, .bytes = 4, .from = 2, .to = 3)

#endif
