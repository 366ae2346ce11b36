/* indices.args.h - what the kernels are given that look at indices in a card's memory; see
 * asc_args.h. */
#ifndef INDICES_ARGS_H
#define INDICES_ARGS_H

#include "shared/asc_args.h"

/* What a block leaves of the first index that is out of range: INDICES_FAULT numbers of 8 bytes,
 * `ticket` being 0 where there is none. Launches of a context have rising tickets. what: the host's
 * number of the argument. */
enum {
    INDICES_TICKET,
    INDICES_WHAT,
    INDICES_POSITION,
    INDICES_VALUE,
    INDICES_LEAST,
    INDICES_MOST,
    INDICES_FAULT = 8
};

/* Boundaries that UB has room for at a time. */
enum { INDICES_BOUNDARIES = 1024 };

/* to = from, but `instead` where an index is less than `least` or more than `most`, which are of 32
 * bits. end: where it is given, indices from that number on are not meant, and no fault. */
#define INDICES_LOOK(X)                             \
    X(VECTOR, from, int64_t)                        \
    X(MEMORY, to, int64_t)                          \
    X(MEMORY, faults, int64_t)                      \
    X(MEMORY, end, int64_t)                         \
    X(GRID, rows, columns, tile_rows, tile_columns) \
    X(I64, least)                                   \
    X(I64, most)                                    \
    X(I64, instead)                                 \
    X(I64, what)                                    \
    X(I64, ticket)                                  \
    X(BUFFER, index, .bytes = 8)                    \
    X(BUFFER, low, .bytes = 4)                      \
    X(BUFFER, high, .bytes = 4)                     \
    X(BUFFER, good, .bytes = 4)                     \
    X(BUFFER, wrong, .bytes = 4)                    \
    X(BUFFER, other, .bytes = 4)                    \
    X(BUFFER, table, .bytes = 4)                    \
    X(BUFFER, sum, .per = TG_UB_FIXED, .bytes = 32) \
    X(BUFFER, fault, .per = TG_UB_FIXED, .bytes = 8 * INDICES_FAULT)

/* The same of boundaries, of which each is at least the one before and at most `most`; the first is
 * 0. One block. */
#define INDICES_RISE(X)                                                   \
    X(VECTOR, from, int64_t)                                              \
    X(MEMORY, to, int64_t)                                                \
    X(MEMORY, faults, int64_t)                                            \
    X(GRID, rows, columns, tile_rows, tile_columns)                       \
    X(I64, most)                                                          \
    X(I64, what)                                                          \
    X(I64, ticket)                                                        \
    X(BUFFER, index, .per = TG_UB_FIXED, .bytes = 8 * INDICES_BOUNDARIES) \
    X(BUFFER, fault, .per = TG_UB_FIXED, .bytes = 8 * INDICES_FAULT)

#endif
