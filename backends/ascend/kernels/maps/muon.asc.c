/* muon.asc.c - the two passes over the parameters of Muon. Arithmetic is f32 in UB. */
#include "clipping.h"
#include "muon.args.h"

/* m becomes the next one and u what is to be orthogonalised; g is used up. */
static inline __aicore__ void muon_momentum_tile(__ubuf__ float *u, __ubuf__ float *m,
                                                 __ubuf__ float *g, const asc_clipping *clip,
                                                 float momentum, float rest, int64_t plain,
                                                 uint32_t n)
{
    asc_clip(g, u, clip, n);
    asc_mul_scalar(m, m, momentum, n);
    ASC_THEN();
    asc_axpy(m, g, rest, n);
    ASC_THEN();
    asc_mul_scalar(u, m, plain ? 1.0f : momentum, n);
    ASC_THEN();
    if (!plain)
        asc_axpy(u, g, rest, n);
    ASC_THEN();
}

/* p becomes the next one. */
static inline __aicore__ void muon_update_tile(__ubuf__ float *p, __ubuf__ float *u, float keep,
                                               float rate, uint32_t n)
{
    asc_mul_scalar(p, p, keep, n);
    ASC_THEN();
    asc_axpy(p, u, -rate, n);
    ASC_THEN();
}

#define ASC_TEMPLATE "maps/muon.asc.h"
#include "shared/asc_each_type.h"
