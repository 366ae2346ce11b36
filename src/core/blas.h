/* src/core/blas.h - a BLAS that is there when the program runs: the one that TIGON_BLAS names, or
 * on Intel's processors MKL, be it the program's own, PyTorch's or the system's.
 */
#ifndef TG_CORE_BLAS_H
#define TG_CORE_BLAS_H

#include <stdint.h>

#include "tigon/context.h"

/* sgemm_ of Fortran. It reads integers of 32 or of 64 bits, as it was built: what these point to is
 * right for both, if it is not negative and fits into 31 bits, on a little-endian machine. */
typedef void tg_sgemm_fn(const char *trans_a, const char *trans_b, const int64_t *m,
                         const int64_t *n, const int64_t *k, const float *alpha, const float *a,
                         const int64_t *ld_a, const float *b, const int64_t *ld_b,
                         const float *beta, float *c, const int64_t *ld_c);

typedef struct tg_blas {
    tg_sgemm_fn *sgemm; /* NULL: there is none */
    /* Holds calls of this thread to a number of threads, 0 to as many as the process; returns what
     * held until now. NULL: all calls run on one thread. */
    int (*hold_threads)(int threads);
} tg_blas;

/* The process's BLAS, which is looked for once. */
const tg_blas *tg_blas_find(void);

/* TG_ENOTFOUND if TIGON_BLAS names none that can be loaded, TG_EINVAL if it named another when the
 * process's was looked for: a setting's function, see environment.c. */
tg_status tg_blas_check(tg_ctx *ctx, const char *value, const char *who);

#endif
