/* tvd.asc.h - the kernel of one type; see asc_each_type.h. */

#define TERMS(step) ASC_NAME(tvd##step)
#define TERMS_ARGS TVD
#define TERMS_TILE                              \
    (void)variant, (void)parameter, (void)rest; \
    tvd_tile(t, g, x32, y32, factor, n)
#include "terms.asc.h"
