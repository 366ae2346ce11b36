/* moe_gather.asc.h - the kernels of one type; see asc_each_type.h. */
#include "moe_spread.asc.h"

#include "moe_collect.asc.h"
