/* grouped_gemm.args.h - what the kernel of grouped_gemm is given; see asc_args.h. */
#ifndef GROUPED_GEMM_ARGS_H
#define GROUPED_GEMM_ARGS_H

#include "gemm.args.h"

/* c [rows, n] = a b, group by group: rows from offset[e] up to offset[e + 1] with the matrix e of
 * `groups`, b_step elements behind the one before, stored [n, k] if b_turned and else [k, n]; rows
 * behind all groups are 0. bias [groups, n] may be absent. gather: row j of a is row gather[j] /
 * top_k of a_rows; absent: row j. A
 * group is cut as a product is, see gemm.args.h; behind the packets L1 has room for GROUPED_BIAS
 * bytes. */
enum { GROUPED_COLUMNS = 256, GROUPED_BIAS = 4 * GROUPED_COLUMNS * GEMM_PACKETS };

#define GROUPED_GEMM(X)        \
    X(MEMORY, a, ASC_T)        \
    X(MEMORY, b, ASC_T)        \
    X(MEMORY, c, void)         \
    X(MEMORY, bias, float)     \
    X(MEMORY, offset, int64_t) \
    X(MEMORY, gather, int64_t) \
    X(I64, top_k)              \
    X(I64, a_rows)             \
    X(I64, a_stride)           \
    X(I64, b_stride)           \
    X(I64, b_step)             \
    X(I64, b_turned)           \
    X(I64, c_stride)           \
    X(I64, c_type)             \
    X(I64, groups)             \
    X(I64, rows)               \
    X(I64, n)                  \
    X(I64, k)                  \
    X(I64, tile_m)             \
    X(I64, tile_n)             \
    X(I64, packet)             \
    X(I64, band)

/* c[e] [m, n] = left^T right over the rows of group e, whose matrices lie c_step elements apart;
 * one of both operands may be taken by numbers, as above, the other is row by row. A group without
 * rows gives zeros. add: to what c, f32, holds. */
#define GROUPED_MATRICES(X)          \
    X(MEMORY, left, ASC_T)           \
    X(MEMORY, right, ASC_T)          \
    X(MEMORY, c, void)               \
    X(MEMORY, offset, int64_t)       \
    X(MEMORY, left_gather, int64_t)  \
    X(MEMORY, right_gather, int64_t) \
    X(I64, top_k)                    \
    X(I64, left_stride)              \
    X(I64, right_stride)             \
    X(I64, c_stride)                 \
    X(I64, c_step)                   \
    X(I64, c_type)                   \
    X(I64, groups)                   \
    X(I64, m)                        \
    X(I64, n)                        \
    X(I64, add)                      \
    X(I64, tile_m)                   \
    X(I64, tile_n)                   \
    X(I64, packet)                   \
    X(I64, band)

#endif
