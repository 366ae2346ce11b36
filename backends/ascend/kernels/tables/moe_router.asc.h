/* moe_router.asc.h - the kernels of one type; see asc_each_type.h. */
#include "moe_router_forward.asc.h"

#include "moe_router_backward.asc.h"
