/* src/core/ceiling.h - the ceiling of the process: for libraries that cannot have one for each
 * context. */
#ifndef TG_CORE_CEILING_H
#define TG_CORE_CEILING_H

#include <stdint.h>

/* Beside the features of tigon/backend.h: products of bf16 in matrix units, on processors that have
 * TG_CPU_BF16 as well. No level has it, so that any ceiling leaves it out. */
#define TG_CPU_AMX ((uint64_t)1 << 5)

/* For tg_impl.needs: the implementation uses all that the process may. A context with a lower ceiling does not
 * run it. */
#define TG_CPU_PROCESS ((uint64_t)1 << 63)

/* Features of the machine below TIGON_CPU_MAX, as it was when the first context was made. */
uint64_t tg_cpu_process(void);

/* 1 if the operating system lets this process use matrix units (TG_CPU_AMX), for which it has to be asked. */
int tg_cpu_permit_tiles(void);

/* 1 if TIGON_CPU_MAX took any away. */
int tg_cpu_is_held(void);

#endif
