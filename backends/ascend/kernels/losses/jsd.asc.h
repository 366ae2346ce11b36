/* jsd.asc.h - the kernel of one type; see asc_each_type.h. */

#define TERMS(step) ASC_NAME(jsd##step)
#define TERMS_ARGS JSD
#define TERMS_TILE                                                                          \
    if (variant == JSD_MIDDLE && g)                                                         \
        jsd_middle_gradient(t, g, x32, y32, ASC_SCRATCH(a), ASC_SCRATCH(b), ASC_SCRATCH(c), \
                            factor, asc_f32(parameter), asc_f32(rest), has_terms, n);       \
    else if (variant == JSD_MIDDLE)                                                         \
        jsd_middle_terms(t, x32, y32, ASC_SCRATCH(a), ASC_SCRATCH(b), ASC_SCRATCH(c),       \
                         asc_f32(parameter), asc_f32(rest), n);                             \
    else if (variant == JSD_MIXTURE)                                                        \
        jsd_mixture(t, g, x32, y32, ASC_SCRATCH(a), ASC_SCRATCH(b), ASC_SCRATCH(c), factor, \
                    asc_f32(parameter), asc_f32(rest), n);                                  \
    else if (variant == JSD_REVERSE)                                                        \
        jsd_reverse(t, g, x32, y32, ASC_SCRATCH(a), factor, n);                             \
    else                                                                                    \
        divergence_of_logs(t, g, y32, x32, ASC_SCRATCH(a), -factor, has_terms, n)
#include "terms.asc.h"
