/* mhc_post_res.asc.h - the kernels of one type; see asc_each_type.h. */
#include "streams.asc.h"

ASC_KERNEL ASC_NAME(mhc_post_res_forward)(ASC_PARAMS(MHC_POST_RES_FORWARD))
{
    const streams_walk w = streams_walk_of(tokens, rows, columns, tile_columns);
    const post_res_numbers m = {
        post, res, post_at, res_at, ASC_SCRATCH(post_spread), ASC_SCRATCH(res_spread)};
    __ubuf__ float *p = ASC_SCRATCH(p);
#if ASC_16BIT
    __ubuf__ float *x32 = ASC_SCRATCH(x32);
#else
    __ubuf__ float *x32 = 0;
#endif
    int slot = 0;
    (void)tile_rows;
    asc_clear_begin();
    asc_clear(x_at, rows * w.pitch * (int64_t)sizeof(ASC_T));
    asc_pipeline_begin();
    asc_sync_notify(PIPE_V, PIPE_MTE2, EVENT_ID3); /* numbers may be copied in */
    for (int64_t t = w.share.begin; t < w.share.end; t++) {
        post_res_take(&w, &m, t);
        for (int64_t c = 0; c < columns; c += tile_columns, slot ^= 1) {
            const int64_t n = asc_min_of(tile_columns, columns - c);
            ASC_MAY_FILL(slot);
            ASC_NAME(streams_in)
            (&w, x_at, slot, 0, x, x_stride, t * w.streams, w.streams, c, n);
            ASC_NAME(streams_in)(&w, x_at, slot, w.streams, f, f_stride, t, 1, c, n);
            ASC_HAS_FILLED(slot);
            __ubuf__ float *wide = ASC_NAME(streams_widen)(&w, x_at, slot, x32, rows);
            streams_combine(p, w.streams, wide + w.streams * w.pitch, 1, m.post_spread, 1, 0,
                            w.pitch);
            streams_add(p, w.streams, wide, w.streams, m.res_spread, streams_pitch(&w), 1, w.pitch);
            ASC_HAS_READ(slot);
            ASC_MAY_WRITE(slot);
            ASC_NAME(streams_narrow)(&w, y_at, slot, 0, p, w.streams);
            ASC_HAS_WRITTEN(slot);
            ASC_NAME(streams_out)
            (&w, y_at, slot, 0, y, y_stride, t * w.streams, w.streams, c, n);
            ASC_HAS_LEFT(slot);
        }
    }
    asc_sync_wait(PIPE_V, PIPE_MTE2, EVENT_ID3);
    asc_pipeline_end();
}

ASC_KERNEL ASC_NAME(mhc_post_res_backward)(ASC_PARAMS(MHC_POST_RES_BACKWARD))
{
    const streams_walk w = streams_walk_of(tokens, rows, columns, tile_columns);
    const post_res_numbers m = {
        post, res, post_at, res_at, ASC_SCRATCH(post_spread), ASC_SCRATCH(res_spread)};
    const int64_t line = streams_pitch(&w) * 8; /* floats of a block a stream */
    __ubuf__ float *p = ASC_SCRATCH(p), *sums = ASC_SCRATCH(sums), *part = ASC_SCRATCH(part);
    __ubuf__ float *post_sums = ASC_SCRATCH(post_sums);
#if ASC_16BIT
    __ubuf__ float *x32 = ASC_SCRATCH(x32), *dy32 = ASC_SCRATCH(dy32);
#else
    __ubuf__ float *x32 = 0, *dy32 = 0;
#endif
    int slot = 0;
    (void)tile_rows;
    asc_clear_begin();
    asc_clear(x_at, rows * w.pitch * (int64_t)sizeof(ASC_T));
    asc_clear(dy_at, rows * w.pitch * (int64_t)sizeof(ASC_T));
    asc_duplicate(part, 0.0f, (uint32_t)line);
    asc_pipeline_begin();
    asc_sync_notify(PIPE_V, PIPE_MTE2, EVENT_ID3); /* numbers may be copied in */
    asc_sync_notify(PIPE_MTE3, PIPE_V, EVENT_ID3); /* dpost and dres have left */
    for (int64_t t = w.share.begin; t < w.share.end; t++) {
        post_res_take(&w, &m, t);
        asc_duplicate(sums, 0.0f, (uint32_t)(w.streams * line));
        asc_duplicate(post_sums, 0.0f, (uint32_t)line);
        ASC_THEN();
        for (int64_t c = 0; c < width; c += tile_columns, slot ^= 1) {
            const int64_t n = asc_min_of(tile_columns, width - c);
            ASC_MAY_FILL(slot);
            ASC_NAME(streams_in)
            (&w, dy_at, slot, 0, dy, dy_stride, t * w.streams, w.streams, c, n);
            ASC_NAME(streams_in)
            (&w, x_at, slot, 0, x, x_stride, t * w.streams, w.streams, c, n);
            ASC_NAME(streams_in)(&w, x_at, slot, w.streams, f, f_stride, t, 1, c, n);
            ASC_HAS_FILLED(slot);
            __ubuf__ float *g = ASC_NAME(streams_widen)(&w, dy_at, slot, dy32, w.streams);
            __ubuf__ float *wide = ASC_NAME(streams_widen)(&w, x_at, slot, x32, rows);
            for (int64_t o = 0; o < w.streams; o++) {
                ASC_BY_COLUMN(asc_mul, p, wide, g + o * w.pitch, w.streams, w.pitch);
                ASC_THEN();
                streams_add_sums(sums + o * line, p, w.streams, w.pitch, n, part,
                                 ASC_SCRATCH(eighth), ASC_SCRATCH(rest));
            }
            ASC_BY_COLUMN(asc_mul, p, g, wide + w.streams * w.pitch, w.streams, w.pitch);
            ASC_THEN();
            streams_add_sums(post_sums, p, w.streams, w.pitch, n, part, ASC_SCRATCH(eighth),
                             ASC_SCRATCH(rest));
            streams_combine(p, w.streams, g, w.streams, m.res_spread, 1, streams_pitch(&w),
                            w.pitch);
            streams_combine(p + w.streams * w.pitch, 1, g, w.streams, m.post_spread, 0, 1, w.pitch);
            ASC_HAS_READ(slot);
            ASC_MAY_WRITE(slot);
            ASC_NAME(streams_narrow)(&w, dx_at, slot, 0, p, rows);
            ASC_HAS_WRITTEN(slot);
            ASC_NAME(streams_out)
            (&w, dx_at, slot, 0, dx, dx_stride, t * w.streams, w.streams, c, n);
            ASC_NAME(streams_out)(&w, dx_at, slot, w.streams, df, df_stride, t, 1, c, n);
            ASC_HAS_LEFT(slot);
        }
        asc_sync_wait(PIPE_MTE3, PIPE_V, EVENT_ID3);
        asc_datablock_reduce_sum(ASC_SCRATCH(dpost), post_sums, (uint32_t)line);
        asc_datablock_reduce_sum(ASC_SCRATCH(dres), sums, (uint32_t)(w.streams * line));
        ASC_THEN();
        ASC_FENCE(PIPE_V, PIPE_MTE3);
        streams_line_out(&w, dpost + t * w.streams, asc_place(dpost_at, 0), 1);
        streams_line_out(&w, dres + t * w.streams * w.streams, asc_place(dres_at, 0), w.streams);
        asc_sync_notify(PIPE_MTE3, PIPE_V, EVENT_ID3);
    }
    asc_sync_wait(PIPE_V, PIPE_MTE2, EVENT_ID3);
    asc_sync_wait(PIPE_MTE3, PIPE_V, EVENT_ID3);
    asc_pipeline_end();
}
