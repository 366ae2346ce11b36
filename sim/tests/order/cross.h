/* cross.h - programs of a cube core and its two vector cores: copies of slots of global memory,
 * flags between the cores, barriers. */
#ifndef ORDER_CROSS_H
#define ORDER_CROSS_H

#include <stdint.h>

enum { CORES = 3, CROSS_STEPS = 60, CROSS_SLOTS = 5, CROSS_SLOT = 64 };

typedef enum cross_kind { READ, WRITE, ARRIVE, AWAIT, SYNC } cross_kind;

/* In the order of one schedule; those of a core are its program. */
typedef struct cross_step {
    uint8_t core, kind, slot; /* core 0: the cube core */
    uint8_t pipe;             /* of an arrival: 0 what reads, 1 what writes */
    uint8_t mode, id;
} cross_step;

typedef struct cross_program {
    int32_t count;
    cross_step steps[CROSS_STEPS];
} cross_program;

#endif
