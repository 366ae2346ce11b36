/* partials.asc.c - the second launch of a gradient that every block has summed for itself: the blocks' partial sums, added in their
 * order. The bits do not depend on which block was done first. */
#include "asc_row_tile.h"
#include "partials.args.h"

#define ASC_TEMPLATE "partials.asc.h"
#include "asc_each_type.h"
