/* geglu.args.h - what the kernels of geglu are given; see asc_args.h. */
#ifndef GEGLU_ARGS_H
#define GEGLU_ARGS_H

#include "shared/asc_args.h"

#define GEGLU_EXACT TG_UB_OPTION(0)

/* Steps: 0 copy in, 1 magnitudes, 2 exponent, 3 quotient, 4 gelu, 5 product and copy out, from
 * where gate was. Of two sources of one instruction, one lies LOW, one HIGH. What the LOW ones are
 * computed with or become lies behind what is copied, in another bank: there, a result does not
 * meet what is being read. */
#define GEGLU_FORWARD(X)                                                                          \
    X(TENSOR, gate, ASC_T)                                                                        \
    X(TENSOR, up, ASC_T)                                                                          \
    X(TENSOR, y, ASC_T)                                                                           \
    X(GRID, rows, columns, tile_rows, tile_columns)                                               \
    X(I64, exact)                                                                                 \
    X(BUFFER, h, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_LOW)                            \
    X(BUFFER, gate32, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT)  \
    X(BUFFER, gate, .to = 5, .copies = 2, .bank = TG_UB_BANK_LOW)                                 \
    X(BUFFER, up, .to = 5, .copies = 2, .bank = TG_UB_BANK_HIGH)                                  \
    X(BUFFER, coefficients, .per = TG_UB_FIXED, .bytes = 9 * 32, .to = TG_UB_LAST,                \
      .when = GEGLU_EXACT)                                                                        \
    X(BUFFER, e, .bytes = 4, .from = 2, .to = 3, .bank = TG_UB_BANK_HIGH)                         \
    X(BUFFER, up32, .bytes = 4, .from = 4, .to = 5, .bank = TG_UB_BANK_HIGH, .when = TG_UB_16BIT) \
    X(BUFFER, p, .bytes = 4, .from = 1, .to = 4, .bank = TG_UB_BANK_HIGH, .when = GEGLU_EXACT)    \
    X(BUFFER, q, .bytes = 4, .from = 2, .to = 3, .bank = TG_UB_BANK_HIGH, .when = GEGLU_EXACT)

/* Steps: 0 copy in, 1 widen, 2 magnitudes, 3 exponents, 4 slopes, 5 products, 6 copy out. */
#define GEGLU_BACKWARD(X)                                                                         \
    X(TENSOR, dy, ASC_T)                                                                          \
    X(TENSOR, gate, ASC_T)                                                                        \
    X(TENSOR, up, ASC_T)                                                                          \
    X(TENSOR, dgate, ASC_T)                                                                       \
    X(TENSOR, dup, ASC_T)                                                                         \
    X(GRID, rows, columns, tile_rows, tile_columns)                                               \
    X(I64, exact)                                                                                 \
    X(BUFFER, dy32, .bytes = 4, .from = 1, .to = 5, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT)  \
    X(BUFFER, k, .bytes = 4, .from = 2, .to = 6, .bank = TG_UB_BANK_LOW)                          \
    X(BUFFER, r, .bytes = 4, .from = 2, .to = 5, .bank = TG_UB_BANK_LOW, .when = GEGLU_EXACT)     \
    X(BUFFER, dy, .to = 5, .copies = 2, .bank = TG_UB_BANK_LOW)                                   \
    X(BUFFER, gate, .to = 5, .copies = 2, .bank = TG_UB_BANK_HIGH)                                \
    X(BUFFER, up, .to = 5, .copies = 2, .bank = TG_UB_BANK_HIGH)                                  \
    X(BUFFER, dgate, .from = 5, .to = 6, .copies = 2)                                             \
    X(BUFFER, dup, .from = 5, .to = 6, .copies = 2, .bank = TG_UB_BANK_HIGH)                      \
    X(BUFFER, gate32, .bytes = 4, .from = 1, .to = 6, .bank = TG_UB_BANK_HIGH,                    \
      .when = TG_UB_16BIT)                                                                        \
    X(BUFFER, up32, .bytes = 4, .from = 4, .to = 5, .bank = TG_UB_BANK_HIGH, .when = TG_UB_16BIT) \
    X(BUFFER, q, .bytes = 4, .from = 2, .to = 3, .bank = TG_UB_BANK_HIGH)                         \
    X(BUFFER, w, .bytes = 4, .from = 2, .to = 5, .bank = TG_UB_BANK_HIGH)                         \
    X(BUFFER, h, .bytes = 4, .from = 2, .to = 5, .bank = TG_UB_BANK_HIGH)                         \
    X(BUFFER, coefficients, .per = TG_UB_FIXED, .bytes = 9 * 32, .to = TG_UB_LAST,                \
      .when = GEGLU_EXACT)

/* Gate and up are neighbours in one tensor, and so are their gradients. The grid is that of y. */
#define GEGLU_FORWARD_PAIRS(X)                                                     \
    X(TENSOR, y, ASC_T)                                                            \
    X(TENSOR, pairs, ASC_T)                                                        \
    X(GRID, rows, columns, tile_rows, tile_columns)                                \
    X(I64, exact)                                                                  \
    X(BUFFER, y, .from = 2, .to = 3, .copies = 2)                                  \
    X(BUFFER, h, .bytes = 4, .from = 2, .to = 2)                                   \
    X(BUFFER, e, .bytes = 4, .from = 2, .to = 2)                                   \
    X(BUFFER, p, .bytes = 4, .from = 2, .to = 2, .when = GEGLU_EXACT)              \
    X(BUFFER, q, .bytes = 4, .from = 2, .to = 2, .when = GEGLU_EXACT)              \
    X(BUFFER, coefficients, .per = TG_UB_FIXED, .bytes = 9 * 32, .to = TG_UB_LAST, \
      .when = GEGLU_EXACT)                                                         \
    ASC_PAIR_BUFFERS(X)

#define GEGLU_BACKWARD_PAIRS(X)                                                    \
    X(TENSOR, dy, ASC_T)                                                           \
    X(TENSOR, pairs, ASC_T)                                                        \
    X(TENSOR, results, ASC_T)                                                      \
    X(GRID, rows, columns, tile_rows, tile_columns)                                \
    X(I64, exact)                                                                  \
    X(BUFFER, dy, .to = 2, .copies = 2)                                            \
    X(BUFFER, dy32, .bytes = 4, .from = 1, .to = 2, .when = TG_UB_16BIT)           \
    X(BUFFER, k, .bytes = 4, .from = 2, .to = 2)                                   \
    X(BUFFER, q, .bytes = 4, .from = 2, .to = 2)                                   \
    X(BUFFER, w, .bytes = 4, .from = 2, .to = 2)                                   \
    X(BUFFER, h, .bytes = 4, .from = 2, .to = 2)                                   \
    X(BUFFER, r, .bytes = 4, .from = 2, .to = 2, .when = GEGLU_EXACT)              \
    X(BUFFER, coefficients, .per = TG_UB_FIXED, .bytes = 9 * 32, .to = TG_UB_LAST, \
      .when = GEGLU_EXACT)                                                         \
    ASC_PAIR_BUFFERS(X)                                                            \
    ASC_PAIR_RESULTS(X)

/* Short rows of gate and up side by side: see asc_halves.asc.h. Steps: 0 copy in, 1 transpose, 2
 * arithmetic, 3 transpose back, 4 copy out. */
#define GEGLU_HALVES(X)                                                            \
    ASC_SHORT_PLANNED(X)                                                           \
    ASC_HALF_BUFFERS(X)                                                            \
    X(BUFFER, gate, .to = 1, .copies = 2)                                          \
    X(BUFFER, gate32, .bytes = 4, .from = 1, .to = 3)                              \
    X(BUFFER, h, .bytes = 2, .from = 2, .to = 2)                                   \
    X(BUFFER, q, .bytes = 2, .from = 2, .to = 2)                                   \
    X(BUFFER, coefficients, .per = TG_UB_FIXED, .bytes = 9 * 32, .to = TG_UB_LAST, \
      .when = GEGLU_EXACT)

#define GEGLU_FORWARD_SHORT(X)                                        \
    X(MEMORY, gate, ASC_T)                                            \
    X(TENSOR, y, ASC_T)                                               \
    X(I64, exact)                                                     \
    GEGLU_HALVES(X)                                                   \
    X(BUFFER, e, .bytes = 2, .from = 2, .to = 2)                      \
    X(BUFFER, p, .bytes = 2, .from = 2, .to = 2, .when = GEGLU_EXACT) \
    X(BUFFER, y, .from = 3, .to = 4, .copies = 2)

#define GEGLU_BACKWARD_SHORT(X)                                       \
    X(TENSOR, dy, ASC_T)                                              \
    X(MEMORY, gate, ASC_T)                                            \
    X(MEMORY, dgate, ASC_T)                                           \
    X(I64, exact)                                                     \
    GEGLU_HALVES(X)                                                   \
    X(BUFFER, dy, .to = 2, .copies = 2)                               \
    X(BUFFER, dgate, .from = 3, .to = 4, .copies = 2)                 \
    X(BUFFER, dy32, .bytes = 2, .from = 2, .to = 2)                   \
    X(BUFFER, k, .bytes = 2, .from = 2, .to = 2)                      \
    X(BUFFER, w, .bytes = 2, .from = 2, .to = 2)                      \
    X(BUFFER, r, .bytes = 2, .from = 2, .to = 2, .when = GEGLU_EXACT) \
    X(BUFFER, d32, .bytes = 4, .from = 2, .to = 3)

#endif
