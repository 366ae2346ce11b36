/* What forward and backward of group_norm share, once per ISA level. */
#ifndef TG_GROUP_NORM_COMMON_H
#define TG_GROUP_NORM_COMMON_H

#include "group_norm.h"
#include "simd.h"

/* MIN_CHUNK: elements of work below which another thread does not pay. NEAR: bytes of a group of which the next one fits the
 * second cache beside it. */
enum { MIN_CHUNK = 16384, NEAR = 256 << 10 };

/* A few groups in a row, so that most find what was asked for ahead; one where there are few. */
static int64_t groups_per_chunk(const group_shape *s)
{
    const int64_t size = group_size(s), many = s->batch * s->groups / 64;
    const int64_t least = many < 1 ? 1 : many < 4 ? many : 4;
    return size > 0 && MIN_CHUNK / size > least ? MIN_CHUNK / size : least;
}

/* Takes strides to bytes, and where all views are compact within their channels, each channel for one line. Returns 1 if
 * groups are contiguous, too. */
static int join_lines(group_shape *s, group_view *const *views)
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

/* Bytes from an element to the one to ask for meanwhile: in the next group, or a little further on where that is far off. */
static int64_t next_group(const group_shape *s, const group_view *v)
{
    const int64_t distance = s->width * v->channel;
    return distance <= NEAR ? distance : 2048;
}

/* A vector of channels as f32; `missing` throughout for NULL. */
static tg_status load_channels(tg_ctx *ctx, const tg_tensor *t, int64_t channels, float missing,
                               const float **out)
{
    *out = tg_data(t);
    if (t && tg_type_of(t) == TG_F32)
        return TG_OK;
    float *copy = tg_workspace(ctx, (size_t)channels * sizeof *copy);
    if (!copy)
        return TG_ENOMEM;
    for (int64_t c = 0; c < channels; c++)
        copy[c] = t ? el_get((el)tg_el(tg_type_of(t)), tg_data(t), c) : missing;
    *out = copy;
    return TG_OK;
}

/* 1 if streaming stores suit an output that lies over no input: large, each line aligned. Strides in elements. */
static int streams(const group_shape *s, const group_view *out)
{
    const el e = (el)tg_el(out->type);
    return tg_streams(s->batch * s->groups * group_size(s) * el_size(e)) &&
           v_streamable2(e, out->data) && out->line % V_PAIR == 0;
}

#endif
