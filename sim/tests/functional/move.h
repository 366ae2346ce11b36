/* move.h - what the kernels that copy are asked to do. */
#ifndef FUNCTIONAL_MOVE_H
#define FUNCTIONAL_MOVE_H

#include <stdint.h>

enum { UB_BYTES = 16384, GM_BYTES = 16384, ROW = 96 };
enum {
    MOVE_SIZE,
    MOVE_STRIDED,
    MOVE_ALIGN_SIZE,
    MOVE_ALIGN,
    MOVE_WITHIN_SIZE,
    MOVE_WITHIN,
    MOVE_FORMS
};

typedef struct move {
    int out, form, element, pad; /* pad: the padding's value is set, to this */
    int n_burst, len_burst, left, right, src_gap, dst_gap;
    uint32_t size;
    uint32_t ub, gm; /* offsets; for a move within UB gm is the source's */
} move;

#define ATOMIC_TYPES(USE)   \
    USE(float, float)       \
    USE(float16, half)      \
    USE(bfloat, bfloat16_t) \
    USE(int, int32_t)       \
    USE(int16, int16_t)     \
    USE(int8, int8_t)
enum { ATOMIC_ADD, ATOMIC_MAX, ATOMIC_MIN };
enum {
#define USE(name, T) ATOMIC_##T,
    ATOMIC_TYPES(USE)
#undef USE
};

#endif
