/* src/core/ceiling.h - the ceiling of the process: for libraries that cannot have one for each
 * context. */
#ifndef TG_CORE_CEILING_H
#define TG_CORE_CEILING_H

#include <stdint.h>

/* For tg_impl.needs: the implementation uses all that the process may. A context with a lower
 * ceiling does not run it. */
#define TG_CPU_PROCESS ((uint64_t)1 << 63)

/* Features of the machine below TIGON_CPU_MAX, as it was when the first context was made. */
uint64_t tg_cpu_process(void);

/* 1 if TIGON_CPU_MAX took any away. */
int tg_cpu_is_held(void);

#endif
