/* grouped_gemm.cube.asc.c - products of groups of rows, each with a matrix of its own, on the cube
 * cores: the steps of gemm.cube.asc.c, over the tiles of all groups. The scalar units read where
 * groups begin, all cores the same way, and each takes every so many-th tile. */
#include "grouped.h"

#define ASC_TEMPLATE "products/grouped_gemm_each.asc.h"
#include "shared/asc_each_type.h"
