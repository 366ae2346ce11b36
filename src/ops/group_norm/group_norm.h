/* What all files of group_norm share: where the elements of [batch, channel,
 * spatial dimensions] are.
 *
 * A channel is `lines` lines of `n` elements; a line is contiguous. With one spatial dimension
 * there is one line a channel, with none a channel is one element.
 */
#ifndef TG_GROUP_NORM_H
#define TG_GROUP_NORM_H

#include "core/services.h"

typedef struct group_shape {
    int64_t batch, groups, width; /* channels of a group */
    int64_t lines, n;
} group_shape;

/* Strides in elements. From any group to the next it is width * channel, unless there are no
 * spatial dimensions. */
typedef struct group_view {
    char *data;
    int type;
    int64_t batch, channel, line;
} group_view;

/* x has been checked: two dimensions at least, and num_groups divides the channels. */
static inline group_shape group_shape_of(const tg_tensor *x, int64_t num_groups)
{
    group_shape s = {x->shape[0], num_groups, x->shape[1] / num_groups, 1, 1};
    for (int i = 2; i < x->ndim - 1; i++)
        s.lines *= x->shape[i];
    if (x->ndim > 2)
        s.n = x->shape[x->ndim - 1];
    return s;
}

static inline group_view group_view_of(const tg_tensor *t, const group_shape *s)
{
    const tg_rows r = tg_rows_of(t);
    if (t->ndim == 2)
        return (group_view){r.data, r.type, r.stride, 1, 1};
    return (group_view){r.data, r.type, s->groups * s->width * s->lines * r.stride,
                        s->lines * r.stride, r.stride};
}

/* Elements of a group. */
static inline int64_t group_size(const group_shape *s)
{
    return s->width * s->lines * s->n;
}

#endif
