/* execute/move.h - what launch.c needs of copies: poison, and the atomic stores of a block. */
#ifndef SIM_EXECUTE_MOVE_H
#define SIM_EXECUTE_MOVE_H

#include <stddef.h>

#include "model/model.h"

void sim_poison(void *memory, size_t bytes);

/* The order in which cores' atomic stores arrive is not defined; here it is that of the blocks, so
 * that a launch has one result. Each block's stores are kept and applied when all blocks have
 * ended. */
typedef struct sim_stores sim_stores;
sim_stores *sim_stores_new(void); /* NULL: no memory */
void sim_stores_free(sim_stores *stores);
void sim_stores_apply(const sim_stores *stores);
/* mode: asc_atomic << 4 | sim_type */
void sim_store_later(sim_core *core, int mode, void *to, const void *from, size_t bytes);

#endif
