/* streams.args.h - what kernels on tokens of several streams have in common; see asc_args.h. */
#ifndef STREAMS_ARGS_H
#define STREAMS_ARGS_H

#include "shared/asc_args.h"

enum {
    STREAMS_MOST = 16,
    STREAMS_AT_ONCE = 8,                             /* tokens whose numbers are moved */
    STREAMS_LINE = 4 * STREAMS_MOST,                 /* bytes of a number a stream */
    STREAMS_LINES = STREAMS_LINE * STREAMS_AT_ONCE,  /* of all those tokens */
    STREAMS_MATRICES = STREAMS_LINES * STREAMS_MOST, /* of a number for each two */
    STREAMS_BLOCKS = 32 * STREAMS_MOST,              /* a block of 32 bytes a stream */
    STREAMS_MATRIX = STREAMS_BLOCKS * STREAMS_MOST
};

#endif
