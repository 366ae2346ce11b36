/* rms_norm.cu - forward of rms_norm and fused_add_rms_norm: y = x rstd (offset + weight), rstd = 1
 * / sqrt(mean(x^2) + eps); the fused one normalises s = x + residual, which it writes as well. A
 * gate multiplies y by silu(gate); scale and shift of a group of rows make y (1 + scale) + shift.
 */
#include "rms_norm.cuh"

/* FUSED reads a residual as well, GATED a gate. */
enum form { PLAIN, FUSED, GATED, MODULATED };

struct forward_args {
    row_span x, second, s, y; /* second: residual or gate; s: of the fused one alone */
    row_span scale, shift;
    vector_span weight;
    float *rstd;
    int64_t rows, height; /* height: rows of a group */
    int scale_f32, shift_f32;
    int n, lanes, llama;      /* llama: x rstd is rounded before the weight comes to it */
    float eps, offset, share; /* share: 1 / n */
};

template <class T, int K, int FORM> struct forward_rows {
    static constexpr bool TWO = FORM == FUSED || FORM == GATED;
    typedef row_stream<T, K, TWO ? 2 : 1, ARE_FEW<K> ? ROWS_AHEAD : 0> stream;
    typedef held_vector<T, K> vector;
    static constexpr int VECTORS = FORM == MODULATED ? 2 : 1;
    static constexpr int CHUNKS = stream::CHUNKS + VECTORS * vector::CHUNKS;
    stream in;
    vector weight, shift;
    vector_span shift_row;
    uint4 *vectors; /* in shared memory */
    int64_t group, end;

    __device__ __forceinline__ void begin(const forward_args &a, team &t, uint4 *shared)
    {
        vectors = shared + stream::CHUNKS * blockDim.x;
        group = -1;
        if (FORM == MODULATED && element<T>::WHOLE) { /* rows of few groups */
            const int64_t each = (a.rows + t.step - 1) / t.step;
            t.first *= each;
            t.step = 1;
            end = min(a.rows, t.first + each);
        }
        t.shift = shift_of(t, a.x.row<T>(t.first));
        in.from[0] = a.x;
        if (TWO)
            in.from[TWO] = a.second;
        in.begin(t, last(a), a.n, shared);
        if (FORM != MODULATED)
            weight.begin(a.weight, t, a.n, 1, a.offset, vectors);
    }

    /* The end of the team's rows. No register holds it where it is that of all rows: kernels that
     * hold two tensors have none to spare. */
    __device__ __forceinline__ int64_t last(const forward_args &a) const
    {
        return FORM == MODULATED && element<T>::WHOLE ? end : a.rows;
    }

    /* The scale and shift of row r. */
    __device__ __forceinline__ void modulate(const forward_args &a, const team &t, int64_t r)
    {
        if (r / a.height == group)
            return;
        group = r / a.height;
        weight.scale.data = a.scale.row<char>(group);
        weight.scale.f32 = a.scale_f32;
        weight.begin(a.weight, t, a.n, 1, a.offset, vectors);
        shift_row.data = a.shift.data ? a.shift.row<char>(group) : NULL;
        shift_row.f32 = a.shift_f32;
        shift.begin(shift_row, t, a.n, 0, 0, vectors + vector::CHUNKS * blockDim.x);
    }
};

/* v becomes what T holds of its sum with the residual, which goes to s; returns that as it lies
 * there. */
template <class T>
__device__ __forceinline__ uint4 add_chunk(const uint4 &residual, T *s, int j, int n,
                                           float (&v)[V<T>])
{
    float more[V<T>];
    widen<T>(residual, more);
#pragma unroll
    for (int i = 0; i < V<T>; i++)
        v[i] += more[i];
    const uint4 raw = narrow<T>(v);
    store_chunk(s, j, n, v);
    widen<T>(raw, v);
    return raw;
}

template <class T, int K, int FORM, int THREADS = ARE_FEW<K> ? STREAM_THREADS : MOST_LANES>
__global__ void __launch_bounds__(THREADS, ARE_FEW<K> ? 2 : 1) rms_norm_kernel(const forward_args a)
{
    extern __shared__ uint4 chunks[];
    __shared__ team_memory memory;
    team t(&memory, a.lanes);
    forward_rows<T, K, FORM> rows;
    rows.begin(a, t, chunks);
    for (int64_t r = t.first; r < rows.last(a); r += t.step) {
        const T *x = a.x.row<T>(r), *const second = a.second.row<T>(r);
        T *const s = a.s.row<T>(r), *const y = a.y.row<T>(r);
        float squares[1] = {0};
        rows.in.step(t, r, rows.last(a), a.n);
        if constexpr (FORM == MODULATED)
            rows.modulate(a, t, r);
        for_chunks<T, K>(t, a.n, [&](int k, int j) {
            float v[V<T>];
            widen<T>(rows.in.now[0].chunk(x, k, j, a.n), v);
            if constexpr (FORM == FUSED) {
                const uint4 raw =
                    add_chunk<T>(rows.in.now[1].chunk(second, k, j, a.n), s, j, a.n, v);
                if (K > 0)
                    rows.in.now[0].raw[k] = raw;
            }
#pragma unroll
            for (int i = 0; i < V<T>; i++)
                squares[0] += v[i] * v[i];
        });
        if (FORM == FUSED)
            x = s;
        t.sum(squares);
        const float rstd = rsqrtf(squares[0] * a.share + a.eps);
        if (a.rstd && t.lane == 0)
            a.rstd[r] = rstd;
        for_chunks<T, K>(t, a.n, [&](int k, int j) {
            float v[V<T>], w[V<T>];
            widen<T>(rows.in.now[0].chunk(x, k, j, a.n), v);
            rows.weight.chunk(a.weight, k, j, a.n, 1, a.offset, w);
#pragma unroll
            for (int i = 0; i < V<T>; i++)
                v[i] *= rstd;
            if (a.llama)
                widen<T>(narrow<T>(v), v);
#pragma unroll
            for (int i = 0; i < V<T>; i++)
                v[i] *= w[i];
            if constexpr (FORM == GATED) {
                widen<T>(rows.in.now[1].chunk(second, k, j, a.n), w);
#pragma unroll
                for (int i = 0; i < V<T>; i++)
                    v[i] *= w[i] * logistic_of(w[i]).value;
            }
            if constexpr (FORM == MODULATED) {
                rows.shift.chunk(rows.shift_row, k, j, a.n, 0, 0, w);
#pragma unroll
                for (int i = 0; i < V<T>; i++)
                    v[i] += w[i];
            }
            store_chunk(y, j, a.n, v);
        });
    }
}

/* Wide rows of two tensors have no kernels with FEW chunks. Narrow ones have a kernel of as many
 * registers as it takes to have all chunks of both on their way at once. */
template <class T, int FORM> static row_kernels<forward_args> kernels_of()
{
    if constexpr (FORM == FUSED)
        return {{},
                {rms_norm_kernel<T, HELD, FORM>, 0},
                rms_norm_kernel<T, 0, FORM>,
                {},
                {rms_norm_kernel<T, HELD, FORM, NARROW_THREADS>, 0}};
    else
        return {{rms_norm_kernel<T, FEW, FORM>, forward_rows<T, FEW, FORM>::CHUNKS},
                {rms_norm_kernel<T, HELD, FORM>, 0},
                rms_norm_kernel<T, 0, FORM>,
                {rms_norm_kernel<T, SOME_OF<T>, FORM>, forward_rows<T, SOME_OF<T>, FORM>::CHUNKS}};
}

template <int FORM, int COUNT>
static tg_status forward(tg_ctx *ctx, const char *op, const tg_tensor *const (&tensors)[COUNT],
                         const forward_args &a)
{
    return run_forward(ctx, op, tensors, a, [](auto e) { return kernels_of<decltype(e), FORM>(); });
}

/* What both operators have. Without a weight there is no offset either. */
template <class ARGS> static forward_args forward_of(const ARGS *a)
{
    forward_args f = {};
    f.x = span_of(a->x);
    f.y = span_of(a->y);
    f.weight = vector_of(a->weight);
    f.rstd = (float *)data_of(a->rstd);
    f.rows = rows_of(a->x);
    f.n = (int)width_of(a->x);
    f.llama = a->casting_mode == 0;
    f.share = 1 / (float)f.n;
    f.eps = (float)a->eps;
    f.offset = a->weight ? (float)a->offset : 0;
    return f;
}

CUDA_OPERATOR(rms_norm_forward, TG_TAKES_FLOATS);
CUDA_OPERATOR(fused_add_rms_norm_forward, TG_TAKES_FLOATS);

tg_status cuda_rms_norm_forward(tg_ctx *ctx, const tg_rms_norm_forward_args *a)
{
    if (!cuda_host->batch_invariant(ctx) && rms_norm_is_wide(a))
        return rms_norm_forward_wide(ctx, a);
    forward_args f = forward_of(a);
    const tg_tensor *const tensors[] = {a->x, a->y, a->weight, a->gate, a->scale, a->shift};
    if (!a->gate && !a->scale)
        return forward<PLAIN>(ctx, "rms_norm_forward", tensors, f);
    f.llama = 0;
    if (a->gate) {
        f.second = span_of(a->gate);
        return forward<GATED>(ctx, "rms_norm_forward", tensors, f);
    }
    f.scale = span_of(a->scale);
    f.shift = span_of(a->shift);
    f.scale_f32 = tg_type_of(a->scale) == TG_F32;
    f.shift_f32 = a->shift && tg_type_of(a->shift) == TG_F32;
    f.height = f.rows > 0 ? f.rows / rows_of(a->scale) : 1;
    return forward<MODULATED>(ctx, "rms_norm_forward", tensors, f);
}

tg_status cuda_fused_add_rms_norm_forward(tg_ctx *ctx, const tg_fused_add_rms_norm_forward_args *a)
{
    forward_args f = forward_of(a);
    f.second = span_of(a->residual);
    f.s = span_of(a->s);
    const tg_tensor *const tensors[] = {a->x, a->residual, a->s, a->y, a->weight};
    return forward<FUSED>(ctx, "fused_add_rms_norm_forward", tensors, f);
}
