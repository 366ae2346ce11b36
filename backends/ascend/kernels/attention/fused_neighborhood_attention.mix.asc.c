/* fused_neighborhood_attention.mix.asc.c - attention of a position to a few on either side, window
 * by window. Where flash_attention sums up what a query sees piece by piece, here all of it is in
 * one tile: a vector core ends a row of probabilities, or of their gradients, at once, and the
 * cube core's products with them are the results. Each vector core has windows of its own; while
 * it is at one, the cube core multiplies the next scores. In the backward a window makes its rows
 * of dq, dk and dv alone. */
#include "fused_neighborhood_attention.h"
#include "flash_rows.h"
#include "fused_neighborhood_attention.args.h"

#define ASC_TEMPLATE "attention/fused_neighborhood_attention.asc.h"
#include "shared/asc_each_type.h"
