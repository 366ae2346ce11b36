/* lanes.h - what the kernels of the functional tests are asked to do. */
#ifndef FUNCTIONAL_H
#define FUNCTIONAL_H

#include <stddef.h>
#include <stdint.h>

enum { IMAGE = 49152 }; /* bytes of UB that are copied in, worked on, and copied out */

typedef enum form { FORM_COUNT, FORM_SYNC, FORM_REPEAT, FORM_COUNTER } form;

typedef struct request {
    int function, form;
    uint32_t dst, src0, src1; /* offsets into the image */
    uint32_t count;           /* of the count form */
    uint64_t mask[2]; /* low, high: of the repeat form; in counter mode mask[0] is the count */
    int repeat;
    int block[3], step[3]; /* strides of dst, src0, src1 */
    int reads;             /* registers that S is to read back */
    int extra[6];          /* what a function takes beside that */
    double value;
} request;

/* The lane-by-lane functions, in the order of lanes.inc. */
enum {
#define BINARY(function, D, S, ...) function##_##D##_##S,
#define UNARY BINARY
#define NEAR BINARY
#define VALUED BINARY
#define SHIFTED BINARY
#define CONVERT BINARY
#define FILLED(function, D) function##_##D,
#include "lanes.inc"
#undef BINARY
#undef UNARY
#undef NEAR
#undef VALUED
#undef SHIFTED
#undef CONVERT
#undef FILLED
    LANE_FUNCTIONS
};

#endif
