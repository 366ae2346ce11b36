/* mhc_pre.asc.h - the kernels of one type; see asc_each_type.h. */
#include "streams.asc.h"

ASC_KERNEL ASC_NAME(mhc_pre_forward)(ASC_PARAMS(MHC_PRE_FORWARD))
{
    const streams_walk w = streams_walk_of(tokens, rows, columns, tile_columns);
    __ubuf__ float *spread = ASC_SCRATCH(spread), *sum = ASC_SCRATCH(sum);
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
    asc_sync_notify(PIPE_V, PIPE_MTE2, EVENT_ID3); /* h may be copied in */
    for (int64_t t = w.share.begin; t < w.share.end; t++) {
        const int64_t place = streams_place(&w, t);
        if (place == 0) {
            asc_sync_wait(PIPE_V, PIPE_MTE2, EVENT_ID3);
            streams_numbers_in(&w, asc_place(h_at, 0), h, t, 1);
            asc_sync_notify(PIPE_MTE2, PIPE_V, EVENT_ID3);
            asc_sync_wait(PIPE_MTE2, PIPE_V, EVENT_ID3);
        }
        asc_spread(spread, ASC_SCRATCH(h) + place * streams_pitch(&w), w.streams);
        ASC_THEN();
        if (streams_is_last(&w, t))
            asc_sync_notify(PIPE_V, PIPE_MTE2, EVENT_ID3);
        for (int64_t c = 0; c < columns; c += tile_columns, slot ^= 1) {
            const int64_t n = asc_min_of(tile_columns, columns - c);
            ASC_MAY_FILL(slot);
            ASC_NAME(streams_in)
            (&w, x_at, slot, 0, x, x_stride, t * w.streams, w.streams, c, n);
            ASC_HAS_FILLED(slot);
            __ubuf__ float *wide = ASC_NAME(streams_widen)(&w, x_at, slot, x32, w.streams);
            streams_combine(sum, 1, wide, w.streams, spread, 0, 1, w.pitch);
            ASC_HAS_READ(slot);
            ASC_MAY_WRITE(slot);
            ASC_NAME(streams_narrow)(&w, y_at, slot, 0, sum, 1);
            ASC_HAS_WRITTEN(slot);
            ASC_NAME(streams_out)(&w, y_at, slot, 0, y, y_stride, t, 1, c, n);
            ASC_HAS_LEFT(slot);
        }
    }
    asc_sync_wait(PIPE_V, PIPE_MTE2, EVENT_ID3);
    asc_pipeline_end();
}

ASC_KERNEL ASC_NAME(mhc_pre_backward)(ASC_PARAMS(MHC_PRE_BACKWARD))
{
    const streams_walk w = streams_walk_of(tokens, rows, columns, tile_columns);
    __ubuf__ float *spread = ASC_SCRATCH(spread), *sums = ASC_SCRATCH(sums);
    __ubuf__ float *part = ASC_SCRATCH(part), *p = ASC_SCRATCH(p);
    const uint32_t blocks = (uint32_t)(streams_pitch(&w) * 8);
#if ASC_16BIT
    __ubuf__ float *x32 = ASC_SCRATCH(x32);
#else
    __ubuf__ float *x32 = 0;
#endif
    int slot = 0;
    (void)tile_rows;
    asc_clear_begin();
    asc_clear(x_at, rows * w.pitch * (int64_t)sizeof(ASC_T));
    asc_duplicate(part, 0.0f, blocks);
    asc_pipeline_begin();
    asc_sync_notify(PIPE_V, PIPE_MTE2, EVENT_ID3); /* h may be copied in */
    asc_sync_notify(PIPE_MTE3, PIPE_V, EVENT_ID3); /* dh has left */
    for (int64_t t = w.share.begin; t < w.share.end; t++) {
        const int64_t place = streams_place(&w, t);
        if (place == 0) {
            asc_sync_wait(PIPE_V, PIPE_MTE2, EVENT_ID3);
            streams_numbers_in(&w, asc_place(h_at, 0), h, t, 1);
            asc_sync_notify(PIPE_MTE2, PIPE_V, EVENT_ID3);
            asc_sync_wait(PIPE_MTE2, PIPE_V, EVENT_ID3);
        }
        asc_spread(spread, ASC_SCRATCH(h) + place * streams_pitch(&w), w.streams);
        asc_duplicate(sums, 0.0f, blocks);
        ASC_THEN();
        if (streams_is_last(&w, t))
            asc_sync_notify(PIPE_V, PIPE_MTE2, EVENT_ID3);
        for (int64_t c = 0; c < width; c += tile_columns, slot ^= 1) {
            const int64_t n = asc_min_of(tile_columns, width - c);
            ASC_MAY_FILL(slot);
            ASC_NAME(streams_in)
            (&w, x_at, slot, 0, x, x_stride, t * w.streams, w.streams, c, n);
            ASC_NAME(streams_in)(&w, x_at, slot, w.streams, dy, dy_stride, t, 1, c, n);
            ASC_HAS_FILLED(slot);
            __ubuf__ float *wide = ASC_NAME(streams_widen)(&w, x_at, slot, x32, rows);
            __ubuf__ float *g = wide + w.streams * w.pitch;
            ASC_BY_COLUMN(asc_mul, p, wide, g, w.streams, w.pitch);
            ASC_THEN();
            streams_add_sums(sums, p, w.streams, w.pitch, n, part, ASC_SCRATCH(eighth),
                             ASC_SCRATCH(rest));
            streams_combine(p, w.streams, g, 1, spread, 1, 0, w.pitch);
            ASC_HAS_READ(slot);
            ASC_MAY_WRITE(slot);
            ASC_NAME(streams_narrow)(&w, dx_at, slot, 0, p, w.streams);
            ASC_HAS_WRITTEN(slot);
            ASC_NAME(streams_out)
            (&w, dx_at, slot, 0, dx, dx_stride, t * w.streams, w.streams, c, n);
            ASC_HAS_LEFT(slot);
        }
        asc_sync_wait(PIPE_MTE3, PIPE_V, EVENT_ID3);
        asc_datablock_reduce_sum(ASC_SCRATCH(dh), sums, blocks);
        ASC_THEN();
        ASC_FENCE(PIPE_V, PIPE_MTE3);
        streams_line_out(&w, dh + t * w.streams, asc_place(dh_at, 0), 1);
        asc_sync_notify(PIPE_MTE3, PIPE_V, EVENT_ID3);
    }
    asc_sync_wait(PIPE_V, PIPE_MTE2, EVENT_ID3);
    asc_sync_wait(PIPE_MTE3, PIPE_V, EVENT_ID3);
    asc_pipeline_end();
}
