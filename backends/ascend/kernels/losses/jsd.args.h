/* jsd.args.h - what the kernel of jsd is given; see terms.args.h. */
#ifndef JSD_ARGS_H
#define JSD_ARGS_H

#include "terms.args.h"

/* beta is 0, 1, near one of them, or neither */
enum { JSD_FORWARD, JSD_REVERSE, JSD_MIXTURE, JSD_MIDDLE };

#define JSD_IS_MIXTURE TG_UB_OPTION(7)

/* variant: one of the above; parameter: beta. x is the student, y the teacher, both logarithms. */
#define JSD(X)                                                                                    \
    TERMS_GIVEN(X)                                                                                \
    X(BUFFER, a, .bytes = 4, .from = 2, .to = 2, .bank = TG_UB_BANK_HIGH)                         \
    X(BUFFER, b, .bytes = 4, .from = 2, .to = 2, .bank = TG_UB_BANK_HIGH, .when = JSD_IS_MIXTURE) \
    X(BUFFER, c, .bytes = 4, .from = 2, .to = 2, .bank = TG_UB_BANK_HIGH, .when = JSD_IS_MIXTURE)

#endif
