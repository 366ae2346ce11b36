/* kl_div.args.h - what the kernel of kl_div is given; see terms.args.h. */
#ifndef KL_DIV_ARGS_H
#define KL_DIV_ARGS_H

#include "terms.args.h"

/* The target holds weights, of which eps keeps the logarithms of subnormal ones from mattering, or
 * does not; or logarithms. */
enum { KL_DIV_WEIGHTS, KL_DIV_ANY_WEIGHTS, KL_DIV_LOGS };

/* variant: one of the above; parameter: eps. x is y_pred, absent in backward; y is y_true. */
#define KL_DIV(X)  \
    TERMS_GIVEN(X) \
    X(BUFFER, a, .bytes = 4, .from = 2, .to = 2, .bank = TG_UB_BANK_HIGH)

#endif
