/* swiglu.asc.c - y = u s up d with u = gate g and s = 1 / (1 + exp(-u)), and its gradients.
 * Arithmetic is f32 in UB. */
#include "shared/asc_neighbours.h"
#include "shared/asc_short.h"
#include "shared/asc_silu.h"
#include "swiglu.args.h"
#include "swiglu_limited.h"

#define ASC_TEMPLATE "maps/swiglu.asc.h"
#include "shared/asc_each_type.h"
