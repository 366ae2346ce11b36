/* asc_flat_each.h - a kernel on independent elements, once for each type of data: asc_flat.asc.h,
 * whose parameters are defined before this is included. For families that have no other kernels. */
#define ASC_FLAT_EACH
#define ASC_TEMPLATE "shared/asc_flat.asc.h"
#include "shared/asc_each_type.h"
#undef ASC_TEMPLATE
#undef ASC_FLAT_EACH
#undef ASC_FLAT
#undef ASC_FLAT_ARGS
#undef ASC_FLAT_BEGIN
#undef ASC_FLAT_READS
#undef ASC_FLAT_WRITES
#undef ASC_FLAT_TILE
