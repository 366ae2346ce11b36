/* What forward and backward of group_norm on the CPU share. */
#ifndef TG_GROUP_NORM_CPU_H
#define TG_GROUP_NORM_CPU_H

#include "group_norm.h"
#include "rows/columns.h"
#include "rows/next.h"
#include "rows/rows.h"

/* Bytes of a group of which the next one fits the second cache beside it. */
enum { NEAR = 256 << 10 };

/* Takes strides to bytes, and where all views are compact within their channels, each channel for
 * one line. Returns 1 if groups are contiguous, too. */
static inline int join_lines(group_shape *s, group_view *const *views)
{
    int dense = 1;
    for (int i = 0; views[i]; i++) {
        const int64_t size = el_size((el)tg_el(views[i]->type));
        dense &= views[i]->line == s->n;
        views[i]->batch *= size;
        views[i]->channel *= size;
        views[i]->line *= size;
    }
    if (dense) {
        s->n *= s->lines;
        s->lines = 1;
    }
    return dense;
}

/* Bytes from an element to the one to ask for meanwhile: in the next group, or a little further on
 * where that is far off. */
static inline int64_t next_group(const group_shape *s, const group_view *v)
{
    const int64_t distance = s->width * v->channel;
    return distance <= NEAR ? distance : 2048;
}

/* 1 if streaming stores suit an output that lies over no input: large, each line aligned.
 * Strides in elements. */
static inline int streams(const group_shape *s, const group_view *out)
{
    const el e = (el)tg_el(out->type);
    return tg_streams(s->batch * s->groups * group_size(s) * el_size(e)) &&
           v_streamable2(e, out->data) && out->line % V_PAIR == 0;
}

static inline void run_groups(tg_ctx *ctx, const group_shape *s, tg_range_fn chunk, void *job)
{
    const int64_t groups = s->batch * s->groups;
    tg_parallel_for(ctx, groups, rows_grain(groups, group_size(s), 1), chunk, job);
}

#endif
