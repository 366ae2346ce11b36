/* flash_attention_backward.args.h - what the kernels of the backward are given; see asc_args.h. */
#ifndef FLASH_ATTENTION_BACKWARD_ARGS_H
#define FLASH_ATTENTION_BACKWARD_ARGS_H

#include "flash_attention.args.h"

/* Tiles of queries that one sum of dk and dv is made of. */
enum { FLASH_TILES = 4 };

/* delta [batches, heads, queries] = the sum of dy y, `tile_floats` of them at a time. y, dy:
 * elements from one batch, position and head to the next. */
#define FLASH_ATTENTION_DELTA(X)                                                                 \
    X(MEMORY, dy, ASC_T)                                                                         \
    X(MEMORY, y, ASC_T)                                                                          \
    X(MEMORY, delta, float)                                                                      \
    X(GRID, one, floats, tile_row, tile_floats)                                                  \
    ATTENTION_STRIDES(X, dy)                                                                     \
    ATTENTION_STRIDES(X, y)                                                                      \
    X(I64, batches)                                                                              \
    X(I64, heads)                                                                                \
    X(I64, queries)                                                                              \
    X(I64, phases)                                                                               \
    X(I64, dilation)                                                                             \
    X(I64, d)                                                                                    \
    X(BUFFER, dy, .to = TG_UB_LAST, .copies = 2)                                                 \
    X(BUFFER, y, .to = TG_UB_LAST, .copies = 2, .bank = TG_UB_BANK_HIGH)                         \
    X(BUFFER, left, .bytes = 4, .to = TG_UB_LAST, .when = TG_UB_16BIT)                           \
    X(BUFFER, right, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH, .when = TG_UB_16BIT) \
    X(BUFFER, sums, .per = TG_UB_FIXED, .bytes = 256, .to = TG_UB_LAST, .copies = 2)

/* Parts of the gradients, f32, rows of `pitch`: dq [parts, batches, heads, queries], dk, dv [parts,
 * batches, key heads, keys], as many parts as cores that work on one head and one tile of keys; see
 * flash_units.h. A step is a tile of 2 `core_rows` queries and one of `keys` keys, FLASH_TILES of
 * which make a unit. work: of each block two slots of scores and of their gradients, f32, a tile
 * each, and two of the exponentials and their gradients, a unit each. negative: scale is -scale. */
#define FLASH_ATTENTION_BACKWARD(X)                                               \
    X(MEMORY, q, ASC_T)                                                           \
    X(MEMORY, k, ASC_T)                                                           \
    X(MEMORY, v, ASC_T)                                                           \
    X(MEMORY, dy, ASC_T)                                                          \
    X(MEMORY, lse, float)                                                         \
    X(MEMORY, delta, float)                                                       \
    X(MEMORY, dq, float)                                                          \
    X(MEMORY, dk, float)                                                          \
    X(MEMORY, dv, float)                                                          \
    X(MEMORY, work, char)                                                         \
    X(GRID, core_rows, keys, group, group_keys)                                   \
    ATTENTION_STRIDES(X, q)                                                       \
    ATTENTION_STRIDES(X, k)                                                       \
    ATTENTION_STRIDES(X, v)                                                       \
    ATTENTION_STRIDES(X, dy)                                                      \
    ATTENTION_PROBLEM(X)                                                          \
    FLASH_OPTIONS(X)                                                              \
    X(I64, work_block)                                                            \
    X(BUFFER, s, .bytes = 4, .to = TG_UB_LAST, .copies = 2)                       \
    X(BUFFER, ds, .bytes = 4, .to = TG_UB_LAST, .copies = 2)                      \
    X(BUFFER, p, .to = TG_UB_LAST, .copies = 2)                                   \
    X(BUFFER, dp, .to = TG_UB_LAST, .copies = 2)                                  \
    X(BUFFER, lse, .per = TG_UB_ROW, .bytes = 32, .to = TG_UB_LAST, .copies = 2)  \
    X(BUFFER, delta, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST, .copies = 2) \
    X(BUFFER, values, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST)             \
    X(BUFFER, shift, .per = TG_UB_ROW, .bytes = 32, .to = TG_UB_LAST)             \
    X(BUFFER, less, .per = TG_UB_ROW, .bytes = 32, .to = TG_UB_LAST)              \
    X(BUFFER, factor, .per = TG_UB_FIXED, .bytes = 32, .to = TG_UB_LAST)          \
    FLASH_DRAWING(X, FLASH_ROWS)                                                  \
    FLASH_CHANGES_OF_SCORES(X)

/* to [batches, rows, heads, d] = scale times the sum of its parts [parts, batches, heads, rows,
 * pitch], of those that there are. of_keys: these are dk or dv, else dq; cores: blocks of the
 * launch that has made them. */
#define FLASH_ATTENTION_ADD(X)                                                          \
    X(MEMORY, parts, float)                                                             \
    X(MEMORY, to, ASC_T)                                                                \
    X(GRID, one, floats, tile_row, tile_floats)                                         \
    ATTENTION_STRIDES(X, to)                                                            \
    X(I64, core_rows)                                                                   \
    X(I64, keys)                                                                        \
    X(I64, batches)                                                                     \
    X(I64, key_heads)                                                                   \
    X(I64, shared)                                                                      \
    FLASH_PACKED(X)                                                                     \
    X(I64, queries)                                                                     \
    X(I64, all_keys)                                                                    \
    X(I64, d)                                                                           \
    X(I64, lo)                                                                          \
    X(I64, hi)                                                                          \
    X(I64, phases)                                                                      \
    X(I64, dilation)                                                                    \
    X(I64, of_keys)                                                                     \
    X(I64, cores)                                                                       \
    X(F32, scale)                                                                       \
    X(BUFFER, part, .bytes = 4, .to = TG_UB_LAST, .copies = 2, .bank = TG_UB_BANK_HIGH) \
    X(BUFFER, sum, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_LOW)                \
    X(BUFFER, to, .to = TG_UB_LAST, .copies = 2)

/* dsinks [heads] = - the sum of exp(sinks - lse) delta of queries that see a key, `tile_floats` of
 * them at a time. */
#define FLASH_ATTENTION_SINKS(X)                                                        \
    X(MEMORY, sinks, float)                                                             \
    X(MEMORY, lse, float)                                                               \
    X(MEMORY, delta, float)                                                             \
    X(MEMORY, dsinks, float)                                                            \
    X(GRID, one, floats, tile_row, tile_floats)                                         \
    X(I64, batches)                                                                     \
    X(I64, heads)                                                                       \
    FLASH_PACKED(X)                                                                     \
    X(I64, queries)                                                                     \
    X(I64, all_keys)                                                                    \
    X(I64, lo)                                                                          \
    X(I64, hi)                                                                          \
    X(BUFFER, lse, .bytes = 4, .to = TG_UB_LAST, .copies = 2, .bank = TG_UB_BANK_HIGH)  \
    X(BUFFER, delta, .bytes = 4, .to = TG_UB_LAST, .copies = 2, .bank = TG_UB_BANK_LOW) \
    X(BUFFER, sum, .bytes = 4, .to = TG_UB_LAST)                                        \
    X(BUFFER, result, .per = TG_UB_FIXED, .bytes = 32, .to = TG_UB_LAST, .copies = 2)

#endif
