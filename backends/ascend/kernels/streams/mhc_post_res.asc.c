/* mhc_post_res.asc.c - y_o = post_o f + sum over i of res_oi x_i, and its gradients. Arithmetic is
 * f32 in UB. */
#include "mhc_post_res.args.h"
#include "streams.h"

/* The numbers of a token and those that are moved with it; its own, each spread over a block: of
 * post one a stream, of res a line of streams_pitch() a stream. */
typedef struct post_res_numbers {
    __gm__ float *post, *res;
    int64_t post_at, res_at;
    __ubuf__ float *post_spread, *res_spread;
} post_res_numbers;

static inline __aicore__ void post_res_take(const streams_walk *w, const post_res_numbers *m,
                                            int64_t token)
{
    const int64_t place = streams_place(w, token), pitch = streams_pitch(w);
    if (place == 0) {
        asc_sync_wait(PIPE_V, PIPE_MTE2, EVENT_ID3);
        streams_numbers_in(w, asc_place(m->post_at, 0), m->post, token, 1);
        streams_numbers_in(w, asc_place(m->res_at, 0), m->res, token, w->streams);
        asc_sync_notify(PIPE_MTE2, PIPE_V, EVENT_ID3);
        asc_sync_wait(PIPE_MTE2, PIPE_V, EVENT_ID3);
    }
    asc_spread(m->post_spread, ASC_UB(float, m->post_at, 0) + place * pitch, pitch);
    asc_spread(m->res_spread, ASC_UB(float, m->res_at, 0) + place * w->streams * pitch,
               w->streams * pitch);
    ASC_THEN();
    if (streams_is_last(w, token))
        asc_sync_notify(PIPE_V, PIPE_MTE2, EVENT_ID3);
}

#define ASC_TEMPLATE "streams/mhc_post_res.asc.h"
#include "shared/asc_each_type.h"
