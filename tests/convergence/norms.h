/* norms.h - other norms and gates than a Llama's, as backends that a course names before others. */
#ifndef CONVERGENCE_NORMS_H
#define CONVERGENCE_NORMS_H

#include <tigon/backend.h>
#include <tigon/tigon.h>

/* Registers the backends `layernorm` and `dyt`. */
tg_status norms_register(void);

#endif
