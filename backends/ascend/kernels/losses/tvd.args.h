/* tvd.args.h - what the kernel of tvd is given; see terms.args.h. */
#ifndef TVD_ARGS_H
#define TVD_ARGS_H

#include "terms.args.h"

/* x is p, y is q; variant and parameter are not used. */
#define TVD(X) TERMS_GIVEN(X)

#endif
