/* multi_token_attention.args.h - what the kernels of multi_token_attention are given; see
 * asc_args.h. A tile is a row. */
#ifndef MULTI_TOKEN_ATTENTION_ARGS_H
#define MULTI_TOKEN_ATTENTION_ARGS_H

#include "shared/asc_args.h"

/* MTA_WEIGHTS: floats of the weights of a result channel, each channel's taps at a multiple of 64
 * bytes. MTA_FEW_TAPS, MTA_TAPS: of a pair of channels, and the most of them. */
enum { MTA_WEIGHTS = 4096, MTA_FEW_TAPS = 127, MTA_TAPS = 256 };

#define MTA_FEW TG_UB_OPTION(0) /* up to MTA_FEW_TAPS */
#define MTA_MANY TG_UB_OPTION(1)

/* scores with -inf above the diagonal. Steps: 0 copy in, 1 compute, 2 copy out. */
#define MTA_MASK(X)                                 \
    X(TENSOR, scores, ASC_T)                        \
    X(TENSOR, masked, ASC_T)                        \
    X(GRID, rows, columns, tile_rows, tile_columns) \
    X(BUFFER, scores, .to = 1, .copies = 2)         \
    X(BUFFER, wide, .bytes = 4, .from = 1, .to = 1) \
    X(BUFFER, masked, .from = 1, .to = 2, .copies = 2)

/* What the convolution and its gradients have in common: `from` has `ins` channels in a group and
 * `to` has `outs`. Element (i,j) of a result is made of those at (i + sign (a dilation - above),
 * j + sign (b dilation - before)). */
#define MTA_TAPPED(X) \
    X(I64, ins)       \
    X(I64, outs)      \
    X(I64, width)     \
    X(I64, dilation)  \
    X(I64, above)     \
    X(I64, before)

/* The weight of a result channel begins at group * group_step + channel * out_step, that of a
 * summed channel in_step behind. */
#define MTA_CONVOLVE(X)                                                      \
    X(TENSOR, from, ASC_T)                                                   \
    X(TENSOR, to, ASC_T)                                                     \
    X(VECTOR, weight, void)                                                  \
    X(VECTOR, bias, void)                                                    \
    MTA_TAPPED(X)                                                            \
    X(I64, sign)                                                             \
    X(I64, groups)                                                           \
    X(I64, group_step)                                                       \
    X(I64, out_step)                                                         \
    X(I64, in_step)                                                          \
    X(I64, weight_f32)                                                       \
    X(I64, bias_f32)                                                         \
    X(GRID, rows, columns, tile_rows, tile_columns)                          \
    X(BUFFER, from, .to = 1, .copies = 2)                                    \
    X(BUFFER, wide, .bytes = 4, .from = 1, .to = 1, .when = TG_UB_16BIT)     \
    X(BUFFER, sum, .bytes = 4, .from = 1, .to = 1)                           \
    X(BUFFER, to, .from = 1, .to = 2, .copies = 2)                           \
    X(BUFFER, weights, .per = TG_UB_FIXED, .bytes = 16384, .to = TG_UB_LAST) \
    X(BUFFER, staged, .per = TG_UB_FIXED, .bytes = 16384, .to = TG_UB_LAST)  \
    X(BUFFER, parameters, .per = TG_UB_FIXED, .bytes = 128, .to = TG_UB_LAST)

/* Sums of each block, or NULL; lanes: of each tap, and of the bias. */
#define MTA_PARAMETERS(X)                                                                         \
    X(TENSOR, dy, ASC_T)                                                                          \
    X(TENSOR, probs, ASC_T)                                                                       \
    X(MEMORY, dweights, float)                                                                    \
    X(MEMORY, dbiases, float)                                                                     \
    X(I64, dweights_stride)                                                                       \
    X(I64, dbiases_stride)                                                                        \
    X(I64, channels)                                                                              \
    MTA_TAPPED(X)                                                                                 \
    X(GRID, rows, columns, tile_rows, tile_columns)                                               \
    X(BUFFER, dy, .to = 1)                                                                        \
    X(BUFFER, probs, .to = 1, .copies = 2)                                                        \
    X(BUFFER, g, .bytes = 4, .from = 1, .to = 1, .bank = TG_UB_BANK_LOW)                          \
    X(BUFFER, p, .bytes = 4, .from = 1, .to = 1, .bank = TG_UB_BANK_HIGH)                         \
    X(BUFFER, lanes, .per = TG_UB_FIXED, .bytes = 32768, .to = TG_UB_LAST, .when = MTA_FEW)       \
    X(BUFFER, many_lanes, .per = TG_UB_FIXED, .bytes = 65792, .to = TG_UB_LAST, .when = MTA_MANY) \
    X(BUFFER, sums, .per = TG_UB_FIXED, .bytes = 1152, .to = TG_UB_LAST)

#endif
