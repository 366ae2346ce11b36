/* grouped_sums.asc.c - sums of rows in groups, such as the gradient of a bias that each group has.
 * A core adds up a piece of the columns of a group's rows, in f32 and in one order. */
#include "grouped_sums.args.h"
#include "shared/asc_any.h"
#include "sum_add.h"

#define ASC_TEMPLATE "sums/grouped_sums.asc.h"
#include "shared/asc_each_type.h"
