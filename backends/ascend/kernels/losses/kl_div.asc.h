/* kl_div.asc.h - the kernel of one type; see asc_each_type.h. */

#define TERMS(step) ASC_NAME(kl_div##step)
#define TERMS_ARGS KL_DIV
#define TERMS_TILE                                                                        \
    (void)rest;                                                                           \
    kl_div_tile(t, g, x32, y32, ASC_SCRATCH(a), factor, asc_f32(parameter), (int)variant, \
                has_terms, n)
#include "terms.asc.h"
