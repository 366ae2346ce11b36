/* mhc_pre.asc.c - y = sum over streams of h x; dx = h dy, dh = sum over columns of dy x. Arithmetic
 * is f32 in UB. */
#include "mhc_pre.args.h"
#include "streams.h"

#define ASC_TEMPLATE "streams/mhc_pre.asc.h"
#include "shared/asc_each_type.h"
