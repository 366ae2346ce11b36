/* gemm.cube.asc.c - products of matrices on the cube cores. Packets of both operands, some steps
 * along k each, come to L1 while the steps of a packet before go through the halves of L0A and L0B;
 * the sums of a tile stay in L0C until they are copied out. */
#include "gemm.h"

#define ASC_TEMPLATE "products/gemm.asc.h"
#include "shared/asc_each_type.h"
