/* group_norm_cut.h - how groups are shared out to the blocks of a launch. */
#ifndef GROUP_NORM_CUT_H
#define GROUP_NORM_CUT_H

#include "ascend.h"

/* A group is `width` channels of `lines` lines of n elements. */
typedef struct group_norm_shape {
    int64_t batches, channels, groups, width, lines, n;
} group_norm_shape;

/* How batches of groups are cut (GROUP_NORM_ROWS). */
typedef struct group_norm_strips {
    int64_t beside, together, shares;
} group_norm_strips;

/* Of groups that fit, of which `most` do at a time. */
group_norm_strips ascend_group_norm_strips(const group_norm_shape *s, int64_t most, int64_t cores);

/* Blocks that a group of the forward is shared out to, so that cores have about as much to do. */
int64_t ascend_group_norm_shares(const ascend_plan *plan, const group_norm_shape *s);

#endif
