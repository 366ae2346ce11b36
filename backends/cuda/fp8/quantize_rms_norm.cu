/* quantize_rms_norm.cu - E4M3 of what rms_norm or fused_add_rms_norm gives. One pass over rows, as
 * in rms_norm.cu, writes s, rstd and what lies in the order of the rows. The transpose, whose
 * scales belong to 128 rows, is made of s and rstd by a second kernel, in tiles. */
#include "quantize_block.cuh"
#include "quantize_rms_norm.h"
#include "rows/rows.cuh"

struct norm_problem {
    quantize_block_problem p; /* x: what is normalised in tiles, s or x */
    row_span x, residual, s;
    vector_span weight;
    float *rstd;
    int64_t rows;
    int n, lanes, llama; /* llama: x rstd is rounded before the weight comes to it */
    float eps, offset, share;
};

/* y of a chunk at column j, rounded, as it lies in memory. */
template <class T>
__device__ __forceinline__ uint4 normal_chunk(const norm_problem &a, const uint4 &raw, float rstd,
                                              int64_t j)
{
    float v[V<T>], w[V<T>];
    widen<T>(raw, v);
#pragma unroll
    for (int i = 0; i < V<T>; i++)
        v[i] *= rstd;
    if (a.llama)
        widen<T>(narrow<T>(v), v);
    if (a.weight.data) {
        load_vector<T>(a.weight, j, a.n - j, w);
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            v[i] *= w[i] + a.offset;
    }
    return narrow<T>(v);
}

/* ---- in the order of the rows ---- */

/* Lanes that hold a block of 128 elements, one chunk each. */
template <class T> constexpr int BLOCK_LANES = BLOCK_EDGE / V<T>;

/* E4M3 of a chunk of whole<E>, with the scale of the block that this lane and its neighbours
 * have. */
template <class T>
__device__ __forceinline__ void quantize_chunk(const norm_problem &a, const uint4 &y, int64_t r,
                                               int j)
{
    typedef typename element<T>::type E;
    const unsigned mask = mask_of_lanes(BLOCK_LANES<T>);
    const uint32_t words[4] = {y.x, y.y, y.z, y.w};
    uint32_t most = 0;
#pragma unroll
    for (int i = 0; i < 4; i++)
        most = larger_bits<E>(most, words[i] & WITHOUT_SIGN<E>);
    if (sizeof(E) == 2)
        most = max(most & 0xffff, most >> 16);
#pragma unroll
    for (int lane = 1; lane < BLOCK_LANES<T>; lane *= 2)
        most = max(most, __shfl_xor_sync(mask, most, lane));
    const float scale = scale_of(a.p, number_of<E>(most)), factor = __frcp_rn(scale);
    float v[V<T>];
    uint32_t q[V<T> / 4];
    widen<T>(y, v);
#pragma unroll
    for (int i = 0; i < V<T>; i += 4)
        q[i / 4] =
            e4m3_four(v[i] * factor, v[i + 1] * factor, v[i + 2] * factor, v[i + 3] * factor);
    store_bytes<V<T>>(a.p.plain.q + r * a.p.plain.stride + j, q, V<T>);
    if (j % BLOCK_EDGE == 0)
        a.p.plain.scale[j / BLOCK_EDGE * a.p.plain.scale_stride + r] = scale;
}

/* The chunk of s = x + residual, written and returned. */
template <class T>
__device__ __forceinline__ uint4 sum_chunk(const uint4 &x, const uint4 &residual, T *s, int j,
                                           int n)
{
    float v[V<T>], more[V<T>];
    widen<T>(x, v);
    widen<T>(residual, more);
#pragma unroll
    for (int i = 0; i < V<T>; i++)
        v[i] += more[i];
    store_chunk(s, j, n, v);
    return narrow<T>(v);
}

template <class T, int K, bool FUSED>
__global__ void __launch_bounds__(MOST_LANES) norm_rows_kernel(const norm_problem a)
{
    __shared__ team_memory memory;
    team t(&memory, a.lanes);
    for (int64_t r = t.first; r < a.rows; r += t.step) {
        const T *x = a.x.row<T>(r), *const residual = a.residual.row<T>(r);
        T *const s = a.s.row<T>(r);
        float squares[1] = {0};
        held_row<T, K> now, more;
        now.take(x, t, a.n);
        if (FUSED)
            more.take(residual, t, a.n);
        for_chunks<T, K>(t, a.n, [&](int k, int j) {
            uint4 raw = now.chunk(x, k, j, a.n);
            if (FUSED)
                raw = sum_chunk<T>(raw, more.chunk(residual, k, j, a.n), s, j, a.n);
            if (FUSED && K > 0)
                now.raw[k] = raw;
            float v[V<T>];
            widen<T>(raw, v);
#pragma unroll
            for (int i = 0; i < V<T>; i++)
                squares[0] += v[i] * v[i];
        });
        if (FUSED)
            x = s;
        t.sum(squares);
        const float rstd = rsqrtf(squares[0] * a.share + a.eps);
        if (a.rstd && t.lane == 0)
            a.rstd[r] = rstd;
        if (!a.p.plain.q)
            continue;
        for_chunks<T, K>(t, a.n, [&](int k, int j) {
            if (j < a.n)
                quantize_chunk<T>(a, normal_chunk<T>(a, now.chunk(x, k, j, a.n), rstd, j), r, j);
        });
    }
}

/* ---- in tiles ---- */

template <class T>
__global__ void __launch_bounds__(QUANTIZE_THREADS) norm_tiles_kernel(const norm_problem a)
{
    __shared__ tile_memory m;
    const tile_place at(a.p, blockIdx.x);
    own_elements<T> y;
    y.load_by(a.p, at.row, at.column, [&](int64_t r, int64_t j) {
        return normal_chunk<T>(a, load(a.p.x.row<T>(r) + j, a.n - j), a.rstd[r], j);
    });
    quantize_columns(a.p, y, m, at.tile_row, at.tile_column);
}

/* ---- calls ---- */

template <class T> static void launch(const cuda_call &call, const norm_problem &a)
{
    static kernel_room known[2][WAYS];
    const bool fused = a.residual.data != NULL;
    const row_kernels<norm_problem> plain = {
        {}, {norm_rows_kernel<T, HELD, false>, 0}, norm_rows_kernel<T, 0, false>};
    const row_kernels<norm_problem> with_residual = {
        {}, {norm_rows_kernel<T, HELD, true>, 0}, norm_rows_kernel<T, 0, true>};
    launch_forward<T>(call, a, fused ? with_residual : plain, known[fused]);
    if (a.p.turned.q)
        norm_tiles_kernel<T><<<(unsigned)tiles_of(a.p), QUANTIZE_THREADS, 0, call.stream>>>(a);
}

static norm_problem problem_of(const tg_quantize_rms_norm_args *a)
{
    norm_problem n = {};
    n.p = quantize_block_problem_of(a->residual ? a->s : a->x, a);
    n.x = span_of(a->x);
    n.residual = span_of(a->residual);
    n.s = span_of(a->s);
    n.weight = vector_of(a->weight);
    n.rstd = (float *)data_of(a->rstd);
    n.rows = n.p.rows;
    n.n = (int)n.p.columns;
    n.llama = a->casting_mode == 0;
    n.eps = (float)a->eps;
    n.offset = (float)a->offset;
    n.share = 1 / (float)n.n;
    return n;
}

/* Rows of whole blocks, two at least, whose chunks are whole, so that the lanes of a block are side
 * by side in a warp. Of others the norm and quantize_block are called. */
int cuda_quantize_rms_norm_accepts(const tg_quantize_rms_norm_args *a)
{
    const tg_tensor *const tensors[] = {a->x, a->residual, a->s, a->weight};
    const int64_t n = width_of(a->x);
    return n > 2 * BLOCK_EDGE && n % BLOCK_EDGE == 0 && n <= INT32_MAX / 2 && rows_of(a->x) > 0 &&
           ceil_div(rows_of(a->x), BLOCK_EDGE) * (n / BLOCK_EDGE) <= INT32_MAX &&
           are_whole(tensors, 4);
}

tg_status cuda_quantize_rms_norm(tg_ctx *ctx, const tg_quantize_rms_norm_args *a)
{
    norm_problem n = problem_of(a);
    if (n.p.turned.q && !n.rstd) {
        n.rstd = (float *)cuda_host->device_workspace(ctx, (size_t)n.rows * sizeof(float));
        if (!n.rstd)
            return TG_ENOMEM;
    }
    cuda_call call;
    const tg_status status = cuda_begin(&call, ctx, "quantize_rms_norm", a->x);
    if (status != TG_OK)
        return status;
    by_type(a->x, [&](auto e) { launch<whole<decltype(e)>>(call, n); });
    return cuda_end(&call, TG_OK);
}
