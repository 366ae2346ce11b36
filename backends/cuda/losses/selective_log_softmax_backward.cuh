/* selective_log_softmax_backward.cuh - the gradient of a token's log-probability by its logits. */
#ifndef CUDA_SELECTIVE_LOG_SOFTMAX_BACKWARD_CUH
#define CUDA_SELECTIVE_LOG_SOFTMAX_BACKWARD_CUH

#include "selective_log_softmax.cuh"

struct gradient_args {
    tokens k;
    plane_span logits, dlogits; /* of all positions */
    token_plane lse, dlogp;
    int lanes;
};

/* factor 2^((x - origin) scale - from), 1 <= |factor| < 2: what is small is so in the exponent
 * alone, and products that would be subnormal are 0. */
struct logit_slopes {
    float origin, from, factor, target;
};

/* d: dlogp / temperature. */
template <class T, class TEAM, class ROW>
__device__ __forceinline__ static logit_slopes
slopes_of(const gradient_args &a, TEAM &t, float d, float lse, const ROW &logits, float x_y, int y)
{
    logit_slopes s;
    float doubt;
    double from = lse * 1.4426950408889634, factor = -d;
    bool tells;
    logp_by(a.k, x_y, lse, &doubt, &tells);
    s.origin = 0;
    if (tells) {
        t.barrier(); /* all have read the target's logit: dlogits may be the same memory */
    } else {
        const token_row r = row_of<T>(a.k, t, logits, x_y, y);
        s.origin = r.origin;
        doubt = r.odds.doubt;
        factor *= r.odds.scale;
        from = 0;
    }
    const float size = fabsf((float)factor);
    const int exponent = size > 0 && size < CUDART_INF_F ? ilogbf(size) : 0;
    from -= exponent;
    s.from = (float)from;
    s.factor = (float)scalbn(factor, -exponent) * exp2f((float)(s.from - from));
    s.target = d * doubt;
    return s;
}

/* A position of [B, L or more, V]. */
struct gradient_row {
    int64_t b, l;
    token_state state;
    int y;
    float lse, d;

    __device__ __forceinline__ gradient_row(const gradient_args &a, int64_t i, bool tell)
        : b(i / a.logits.inner), l(i - b * a.logits.inner), state(TOKEN_LEFT_OUT), y(-1), lse(0),
          d(0)
    {
        if (l < a.k.length)
            state = a.k.state(b, l, tell, &y);
        if (state == TOKEN_KEPT) {
            lse = *a.lse.at<float>(b, l);
            d = (float)(*a.dlogp.at<float>(b, l) * a.k.per_temperature);
        }
    }

    /* Left out, or clipped: its logits are not even read. */
    __device__ __forceinline__ bool is_zero() const
    {
        return state != TOKEN_REFUSED && d == 0 && lse - lse == 0;
    }
};

template <class T, class TEAM>
__device__ __forceinline__ static void write_zeros(const TEAM &t, T *row, int n)
{
    for (int j = t.lane * V<T>; j < n; j += t.lanes * V<T>)
        store_past(row + j, n - j, make_uint4(0, 0, 0, 0));
}

template <class T, class TEAM, class ROW>
__device__ __forceinline__ static void write_gradient(const gradient_args &a, TEAM &t,
                                                      const ROW &logits, const gradient_row &g,
                                                      float x_y, T *row)
{
    const logit_slopes s = slopes_of<T>(a, t, g.d, g.lse, logits, x_y, g.y);
    logits.walk(t, a.k.n, true, [&](int j, float(&v)[V<T>]) {
#pragma unroll
        for (int u = 0; u < V<T>; u++) {
            v[u] = s.factor * exp2_term((v[u] - s.origin) * a.k.scale - s.from);
            if (j + u == g.y)
                v[u] = s.target;
        }
        store_past(row + j, a.k.n - j, narrow<T>(v));
    });
}

template <class T>
__global__ void __launch_bounds__(MOST_LANES) logit_gradient_kernel(const gradient_args a)
{
    __shared__ team_memory memory;
    team t(&memory, a.lanes);
    for (int64_t i = t.first; i < a.logits.rows; i += t.step) {
        const gradient_row g(a, i, t.lane == 0);
        const walked_row<T> logits = {(const T *)a.logits.row(i)};
        T *const row = (T *)a.dlogits.row(i);
        if (g.is_zero())
            write_zeros(t, row, a.k.n);
        else if (g.state == TOKEN_KEPT)
            write_gradient<T>(a, t, logits, g, get(logits.row + g.y), row);
    }
}

/* The same for wide rows, all of which is under way at once. */
template <class T>
__global__ void __launch_bounds__(LOGITS_THREADS, 3)
    held_logit_gradient_kernel(const __grid_constant__ gradient_args a)
{
    extern __shared__ uint4 held[];
    __shared__ logits_team::room memory;
    logits_team t(&memory);
    const gradient_row g(a, t.row, t.lane == 0);
    const held_logits<T> logits = {held};
    const T *const from = (const T *)a.logits.row(t.row);
    T *const row = (T *)a.dlogits.row(t.row);
    if (g.is_zero()) {
        write_zeros(t, row, a.k.n);
    } else if (g.state == TOKEN_KEPT) {
        logits.take(t, from, a.k.n);
        const float x_y = get(from + g.y);
        t.begin();
        wait_for_copies();
        write_gradient<T>(a, t, logits, g, x_y, row);
    }
}

#endif
