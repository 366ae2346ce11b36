/* mhc_coeffs_beside.mix.asc.c - a product on the cube cores beside what the vector cores do with
 * the rows of x: those that are multiplied too, or those that were before. One needs nothing of
 * the other, so no core waits for another. */
#include "mhc_coeffs_beside.args.h"
#include "products/gemm.h"
#include "shared/asc_row_tile.h"

#define ASC_TEMPLATE "streams/mhc_coeffs_beside.asc.h"
#include "shared/asc_each_type.h"
