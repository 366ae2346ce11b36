/* moe_gate_backward.asc.c - gradients of the gate of experts' layers, from whole rows, on the
 * vector cores: of a row all columns, in pieces, by one core, which so has the gradient of its
 * weight. */
#include "moe_gate.h"
#include "shared/asc_neighbours.h"
#include "shared/asc_row_tile.h"

#define ASC_TEMPLATE "experts/moe_gate_backward.asc.h"
#include "shared/asc_each_type.h"
