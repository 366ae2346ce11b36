/* asc_args.h - what a kernel is given, written once for the kernel and for its host.
 *
 * <family>.args.h lists it for each kernel of a family, and has the constants that both sides use:
 *
 *   #define SWIGLU_FORWARD(X)                                          \
 *       X(TENSOR, gate, ASC_T)                                         \
 *       X(GRID, rows, columns, tile_rows, tile_columns)                \
 *       X(F32, gate_multiplier)                                        \
 *       X(BUFFER, gate, .to = 4, .copies = 2, .bank = TG_UB_BANK_LOW)  \
 *       ...
 *
 *   entry                  parameters of the kernel                 what the host gives
 *   TENSOR, name, type     __gm__ type *name, int64_t name_stride   a tg_tensor; NULL if absent
 *   VECTOR, name, type     __gm__ type *name                        the same, without a stride
 *   MEMORY, name, type     __gm__ type *name                        an ascend_memory
 *   GRID, rows, columns, tile_rows, tile_columns                    nothing: as the launch is
 *                                                                   planned
 *   I64, name              int64_t name                             an int64_t
 *   F32, name              int64_t name, read by asc_f32(name)      a double
 *   BUFFER, name, ...      int64_t name_at, read by ASC_UB()        nothing: it is planned
 *
 * A VECTOR lies without gaps, a MEMORY between two launches. In BUFFER, ... are fields of a
 * tg_ub_buffer (tigon/npu.h), which tell its size and when it is in use.
 *
 * The kernel takes ASC_PARAMS(SWIGLU_FORWARD); launch.h has what the host makes of the list. All
 * parameters are 8 bytes wide, and they come in the order of the list. */
#ifndef ASC_ARGS_H
#define ASC_ARGS_H

#define ASC_PARAMS(list) ASC_PARAMS_OF(list(ASC_PARAM))
#define ASC_PARAMS_OF(...) ASC_PARAMS_BEHIND(__VA_ARGS__)
#define ASC_PARAMS_BEHIND(before_the_first_comma, ...) __VA_ARGS__

#define ASC_PARAM(kind, ...) ASC_PARAM_##kind(__VA_ARGS__)
#define ASC_PARAM_TENSOR(name, type) , __gm__ type *name, int64_t name##_stride
#define ASC_PARAM_VECTOR(name, type) , __gm__ type *name
#define ASC_PARAM_MEMORY(name, type) , __gm__ type *name
#define ASC_PARAM_GRID(rows, columns, tile_rows, tile_columns) \
    , int64_t rows, int64_t columns, int64_t tile_rows, int64_t tile_columns
#define ASC_PARAM_I64(name) , int64_t name
#define ASC_PARAM_F32(name) , int64_t name
#define ASC_PARAM_BUFFER(name, ...) , int64_t name##_at

/* The names of the same parameters: what a kernel passes on to a function of the same list. */
#define ASC_NAMES(list) ASC_PARAMS_OF(list(ASC_NAME_OF))
#define ASC_NAME_OF(kind, ...) ASC_NAME_OF_##kind(__VA_ARGS__)
#define ASC_NAME_OF_TENSOR(name, type) , name, name##_stride
#define ASC_NAME_OF_VECTOR(name, type) , name
#define ASC_NAME_OF_MEMORY(name, type) , name
#define ASC_NAME_OF_GRID(rows, columns, tile_rows, tile_columns) \
    , rows, columns, tile_rows, tile_columns
#define ASC_NAME_OF_I64(name) , name
#define ASC_NAME_OF_F32(name) , name
#define ASC_NAME_OF_BUFFER(name, ...) , name##_at

/* Of kernels on pairs of neighbours (asc_pairs.asc.h), that of a tensor that is read, and of one
 * that is written. `every` element stands for a pair. Steps: 0 copy in, 1 widen, 2 arithmetic, 3
 * copy out. */
#define ASC_PAIR_BUFFERS(X)                                                        \
    X(BUFFER, pairs, .bytes = 4, .to = 1, .copies = 2, .when = TG_UB_16BIT)        \
    X(BUFFER, pairs_f32, .bytes = 8, .to = 1, .copies = 2, .when = TG_UB_32BIT)    \
    X(BUFFER, mixed, .bytes = 8, .from = 1, .to = TG_UB_LAST, .when = TG_UB_16BIT) \
    X(BUFFER, halves, .bytes = 8, .from = 1, .to = TG_UB_LAST)                     \
    X(BUFFER, to_halves, .bytes = 4, .to = TG_UB_LAST)
#define ASC_PAIR_RESULTS(X)                                                                  \
    X(BUFFER, results, .bytes = 4, .from = 2, .to = 3, .copies = 2, .when = TG_UB_16BIT)     \
    X(BUFFER, results_f32, .bytes = 8, .from = 2, .to = 3, .copies = 2, .when = TG_UB_32BIT) \
    X(BUFFER, to_pairs, .bytes = 8, .to = TG_UB_LAST)

/* Buffers of a ring (asc_ring.h), .copies of what pieces are copied into; and of a ring
 * that is read alone. */
enum { ASC_RING = 8, ASC_RING_READ = 3 };

/* The grid and buffers of a kernel on short rows (asc_short.asc.h), whose plan is of the transposed
 * tile: a row of it is a column of the data. */
#define ASC_SHORT_PLANNED(X)                                                      \
    X(GRID, columns, rows, all, lanes)                                            \
    X(BUFFER, turned_in, .per = TG_UB_ROW, .bytes = 4 * 64, .to = TG_UB_LAST)     \
    X(BUFFER, turned_out, .per = TG_UB_ROW, .bytes = 4 * 64, .to = TG_UB_LAST)    \
    X(BUFFER, turned_scratch, .per = TG_UB_ROW, .bytes = 4 * 8, .to = TG_UB_LAST) \
    X(BUFFER, turned_rows, .bytes = 4, .to = TG_UB_LAST, .when = TG_UB_16BIT)

/* And those of kernels/shared/asc_halves.asc.h, whose columns are those of both halves. */
#define ASC_HALF_BUFFERS(X)                                                 \
    X(BUFFER, half_in, .per = TG_UB_ROW, .bytes = 2 * 64, .to = TG_UB_LAST) \
    X(BUFFER, half_out, .per = TG_UB_ROW, .bytes = 2 * 64, .to = TG_UB_LAST)

#endif
