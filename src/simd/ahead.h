/* src/simd/ahead.h - how far ahead of what they read loops ask for memory: set for the machine by
 * core/tuning.c, before kernels run. */
#ifndef TG_SIMD_AHEAD_H
#define TG_SIMD_AHEAD_H

#include <stdint.h>

typedef struct v_distances {
    /* bytes, of a walk along arrays: the hardware looks ahead as well, but stops at the end of each
     * page */
    int64_t pass;
    /* the same where each element has an exponential: arithmetic keeps the hardware from running
     * far ahead */
    int64_t exps;
    /* of rows that are asked for while others are computed: bytes that are on their way */
    int64_t rows;
} v_distances;

extern v_distances v_distance;

#endif
