/* order.h - programs of random steps: what order.c makes up, kernel.c runs. */
#ifndef ORDER_H
#define ORDER_H

#include <stdint.h>

enum { ALL = 4 }; /* the pipe of a barrier of all */
enum { STEPS = 40, SLOTS = 6, SLOT = 32, SPACE = SLOTS * SLOT + 2 * SLOT };

typedef enum step_kind {
    COPY_IN,  /* dst in UB, a in GM */
    ADD,      /* dst, a, b in UB */
    COPY_OUT, /* dst in GM, a in UB */
    LOAD,     /* a in UB */
    STORE,    /* dst in UB */
    SET,
    WAIT,   /* pipe, target, event */
    BARRIER /* pipe */
} step_kind;

typedef struct step {
    int32_t kind;
    uint32_t dst, a, b, bytes; /* offsets in bytes */
    int32_t pipe, target, event;
} step;

typedef struct program {
    step steps[STEPS];
    int32_t count;
} program;

#endif
