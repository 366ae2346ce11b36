/* selective_log_softmax.cu - logp = x_y - lse, x = logits / temperature, of one token a position.
 *
 * All is made of differences of logits, relative to the largest; the target stands apart from the
 * sum of the others, so that logp of a confident row keeps its digits. Exponents are to base 2:
 * temperature is part of their scale. */
#include "selective_log_softmax_backward.cuh"

/* ---- forward ---- */

struct logp_args {
    tokens k;
    token_plane logp, lse, saved;
    int lanes;
};

__device__ __forceinline__ static void write_row(const logp_args &a, int64_t b, int64_t l,
                                                 float logp, float lse)
{
    *a.logp.at<float>(b, l) = logp;
    if (a.lse.data)
        *a.lse.at<float>(b, l) = lse;
}

__device__ __forceinline__ static void write_row(const logp_args &a, int64_t b, int64_t l,
                                                 const token_row &r)
{
    write_row(a, b, l, -r.odds.minus_log_p, (float)(r.origin * a.k.per_temperature + r.odds.lse));
}

template <class T> __global__ void __launch_bounds__(MOST_LANES) logp_kernel(const logp_args a)
{
    __shared__ team_memory memory;
    team t(&memory, a.lanes);
    for (int64_t i = t.first; i < a.k.logits.rows; i += t.step) {
        const int64_t b = i / a.k.length, l = i - b * a.k.length;
        int y;
        const token_state state = a.k.state(b, l, t.lane == 0, &y);
        if (state == TOKEN_KEPT) {
            const walked_row<T> logits = {(const T *)a.k.logits.row(i)};
            const token_row r = row_of<T>(a.k, t, logits, get(logits.row + y), y);
            if (t.lane == 0)
                write_row(a, b, l, r);
        } else if (state == TOKEN_LEFT_OUT && t.lane == 0) {
            write_row(a, b, l, 0, 0);
        }
    }
}

/* The same for wide rows, all of which is under way at once. */
template <class T>
__global__ void __launch_bounds__(LOGITS_THREADS, 3)
    held_logp_kernel(const __grid_constant__ logp_args a)
{
    extern __shared__ uint4 held[];
    __shared__ logits_team::room memory;
    logits_team t(&memory);
    const held_logits<T> logits = {held};
    const int64_t b = t.row / a.k.length, l = t.row - b * a.k.length;
    int y;
    const token_state state = a.k.state(b, l, t.lane == 0, &y);
    if (state == TOKEN_KEPT) {
        const T *const row = (const T *)a.k.logits.row(t.row);
        logits.take(t, row, a.k.n);
        const float x_y = get(row + y);
        t.begin();
        wait_for_copies();
        const token_row r = row_of<T>(a.k, t, logits, x_y, y);
        if (t.lane == 0)
            write_row(a, b, l, r);
    } else if (state == TOKEN_LEFT_OUT && t.lane == 0) {
        write_row(a, b, l, 0, 0);
    }
}

/* By a saved lse: a thread a token, and the whole block for each of those that lse does not tell
 * enough of. */
enum { SAVED_TOKENS = 16 };

template <class T>
__global__ void __launch_bounds__(LOSS_LANES) saved_logp_kernel(const logp_args a)
{
    __shared__ team_memory memory;
    __shared__ int again[SAVED_TOKENS];
    team t(&memory, LOSS_LANES);
    const int64_t first = (int64_t)blockIdx.x * SAVED_TOKENS;
    const int count = (int)min((int64_t)SAVED_TOKENS, a.k.logits.rows - first);
    if ((int)threadIdx.x < count) {
        const int64_t i = first + threadIdx.x, b = i / a.k.length, l = i - b * a.k.length;
        int y;
        const token_state state = a.k.state(b, l, true, &y);
        again[threadIdx.x] = -1;
        if (state == TOKEN_KEPT) {
            float doubt;
            bool tells;
            const float logp = logp_by(a.k, get((const T *)a.k.logits.row(i) + y),
                                       *a.saved.at<float>(b, l), &doubt, &tells);
            if (tells)
                write_row(a, b, l, logp, 0);
            else
                again[threadIdx.x] = y;
        } else if (state == TOKEN_LEFT_OUT) {
            write_row(a, b, l, 0, 0);
        }
    }
    __syncthreads();
    for (int u = 0; u < count; u++) {
        if (again[u] < 0)
            continue;
        const int64_t i = first + u, b = i / a.k.length;
        const walked_row<T> logits = {(const T *)a.k.logits.row(i)};
        const token_row r = row_of<T>(a.k, t, logits, get(logits.row + again[u]), again[u]);
        if (t.lane == 0)
            write_row(a, b, i - b * a.k.length, r);
    }
}

/* ---- the host's side ---- */

static bool whole_rows(const plane_span &rows, int n, int size)
{
    return (uintptr_t)rows.data % 16 == 0 && (int64_t)n * size % 16 == 0 && rows.stride % 16 == 0 &&
           rows.outer % 16 == 0;
}

void launch_log_probabilities(const cuda_call &call, const tokens &k, const tg_tensor *logits,
                              const token_plane &logp, const token_plane &lse,
                              const token_plane &saved)
{
    logp_args a = {k, logp, lse, saved, 0};
    if (k.logits.rows == 0)
        return;
    by_wholeness(
        logits, whole_rows(k.logits, k.n, (int)tg_type_size(tg_type_of(logits))), [&](auto e) {
            using T = decltype(e);
            if constexpr (element<T>::WHOLE) {
                const held_shape h = hold_rows(call, LOGITS_THREADS, k.logits.rows,
                                               (int64_t)k.n * (int)sizeof(T), 1);
                if (h.cluster && !saved.data && few_rows(call, k.logits.rows)) {
                    launch_held(call, h, held_logp_kernel<T>, a);
                    return;
                }
            }
            const row_shape s =
                shape_rows(k.logits.rows, ceil_div(k.n, V<T>), CHUNKS_OF_A_THREAD, LOSS_LANES);
            a.lanes = s.lanes;
            if (saved.data)
                saved_logp_kernel<T><<<(unsigned)ceil_div(k.logits.rows, SAVED_TOKENS), LOSS_LANES,
                                       0, call.stream>>>(a);
            else
                logp_kernel<T><<<(unsigned)s.blocks, s.threads, 0, call.stream>>>(a);
        });
}

void launch_logit_gradients(const cuda_call &call, const tokens &k, const tg_tensor *logits,
                            const tg_tensor *dlogits, const token_plane &lse,
                            const token_plane &dlogp)
{
    const int size = (int)tg_type_size(tg_type_of(logits));
    gradient_args a = {k, k.logits, {}, lse, dlogp, 0};
    a.logits.inner = logits->shape[1];
    a.logits.rows = k.batch * a.logits.inner;
    a.dlogits = a.logits;
    a.dlogits.data = data_of(dlogits);
    a.dlogits.stride = tg_stride(dlogits, 1) * size;
    a.dlogits.outer = tg_stride(dlogits, 0) * size;
    if (a.logits.rows == 0 || k.n == 0)
        return;
    by_wholeness(
        logits, whole_rows(a.logits, k.n, size) && whole_rows(a.dlogits, k.n, size), [&](auto e) {
            using T = decltype(e);
            if constexpr (element<T>::WHOLE) {
                const held_shape h = hold_rows(call, LOGITS_THREADS, a.logits.rows,
                                               (int64_t)k.n * (int)sizeof(T), 1);
                if (h.cluster && few_rows(call, a.logits.rows)) {
                    launch_held(call, h, held_logit_gradient_kernel<T>, a);
                    return;
                }
            }
            const row_shape s =
                shape_rows(a.logits.rows, ceil_div(k.n, V<T>), CHUNKS_OF_A_THREAD, GRADIENT_LANES);
            a.lanes = s.lanes;
            logit_gradient_kernel<T><<<(unsigned)s.blocks, s.threads, 0, call.stream>>>(a);
        });
}

CUDA_OPERATOR(selective_log_softmax_forward, TG_TAKES_FLOATS);
CUDA_OPERATOR(selective_log_softmax_backward, TG_TAKES_FLOATS);

tg_status cuda_selective_log_softmax_forward(tg_ctx *ctx,
                                             const tg_selective_log_softmax_forward_args *a)
{
    static const char op[] = "selective_log_softmax_forward";
    cuda_call call;
    tg_status status = begin_rows(&call, ctx, op, a->logits);
    if (status != TG_OK)
        return status;
    launch_log_probabilities(call, tokens_of(call, a->logits, a->target, a->mask, a->temperature),
                             a->logits, token_plane_of(a->logp), token_plane_of(a->lse),
                             token_plane_of(NULL));
    return cuda_end(&call, TG_OK);
}

tg_status cuda_selective_log_softmax_backward(tg_ctx *ctx,
                                              const tg_selective_log_softmax_backward_args *a)
{
    static const char op[] = "selective_log_softmax_backward";
    cuda_call call;
    tg_status status = begin_rows(&call, ctx, op, a->logits);
    if (status != TG_OK)
        return status;
    launch_logit_gradients(call, tokens_of(call, a->logits, a->target, a->mask, a->temperature),
                           a->logits, a->dlogits, token_plane_of(a->lse), token_plane_of(a->dlogp));
    return cuda_end(&call, TG_OK);
}
