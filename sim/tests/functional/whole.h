/* whole.h - the functions of whole.inc by number. */
#ifndef FUNCTIONAL_WHOLE_H
#define FUNCTIONAL_WHOLE_H

#include "lanes.h"

enum {
#define REDUCE(function, T, ...) function##_##T,
#define COMPARE(function, T, ...) function##_##T,
#define SELECT(T) asc_select_##T,
#define BRCB(T) asc_brcb_##T,
#define GATHER(T) asc_gather_##T,
#define GATHER_DATABLOCK(T) asc_gather_datablock_##T,
#define COMPACT(T) asc_reduce_##T,
#define TRANSPOSE(T) asc_transpose_##T,
#define BITSORT(T) asc_bitsort_##T,
#define MRGSORT4(T) asc_mrgsort4_##T,
#include "whole.inc"
#undef REDUCE
#undef COMPARE
#undef SELECT
#undef BRCB
#undef GATHER
#undef GATHER_DATABLOCK
#undef COMPACT
#undef TRANSPOSE
#undef BITSORT
#undef MRGSORT4
    WHOLE_FUNCTIONS
};

enum {
    AREA = IMAGE / 3,
    AT_DST = 0,
    AT_BITS = AREA - 256, /* what the comparison mask starts with */
    AT_BACK = AREA - 128, /* registers that S read, 32 B */
    AT_SRC0 = AREA,
    AT_SRC1 = 2 * AREA
};
enum { READ_KEPT = 1, READ_SUM = 2, READ_MAX = 4, READ_MIN = 8, READ_MERGED = 16 };
/* extra[0] of a comparison */
enum { INTO_MASK, INTO_BITS, WITH_SCALAR };

#endif
