/* partials.asc.c - the second launch of a gradient that every block has summed for
 * itself: the blocks' partial sums, added in their order. The bits do not depend on which
 * block was done first. */
#include "partials.args.h"
#include "shared/asc_row_tile.h"

#define ASC_TEMPLATE "sums/partials.asc.h"
#include "shared/asc_each_type.h"
