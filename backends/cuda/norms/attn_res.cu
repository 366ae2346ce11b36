/* attn_res.cu - y = sum over blocks of depth of alpha v, alpha = softmax of query weight v rstd,
 * for each token. A block of threads takes a token, whose rows stay in shared memory where they fit
 * and are made of whole chunks; other rows are read twice, the second time from L2. */
#include "rows/many_sums.cuh"
#include "rows/parts.cuh"

enum {
    AT_ONCE = 4 /* rows whose products are summed together */,
    LEAST_THREADS = 128,
    MOST_THREADS = 512,
    MOST_EACH = 4 /* chunks of a kept row that a thread has */,
    KEPT_BYTES = 200 << 10 /* of shared memory, for the rows of a token */,
    OWN_BYTES = 3 << 10 /* of shared memory, that a block of threads has besides */,
    WALKERS = 3 /* blocks of MOST_THREADS a multiprocessor, which go from token to token */
};

struct depth_args {
    row_span v, dy, out; /* dy: backward; out: y or dv */
    vector_span query, weight;
    float *alpha, *rstd; /* [tokens, depth]; of forward each may be NULL */
    float *partial;      /* backward: [blocks of threads, 2, n], or NULL */
    int64_t tokens;
    int depth, n;
    int each;         /* chunks of a row that a thread has */
    float eps, share; /* share: 1 / n */
};

/* What is kept of each row of depth, in shared memory: a score, or the factors of backward. */
enum { SCALE, PULL, BACK, NUMBERS };

/* The rows of a token; row `depth` is that of dy. */
template <class T, bool KEPT> struct token_rows {
    const depth_args &a;
    uint4 *memory; /* [depth + 1, each, threads] */
    int64_t token;

    __device__ __forceinline__ const T *row(int l) const
    {
        return l < a.depth ? a.v.row<T>(l * a.tokens + token) : a.dy.row<T>(token);
    }

    __device__ __forceinline__ uint4 &place(int l, int k) const
    {
        return memory[(l * a.each + k) * blockDim.x + threadIdx.x];
    }

    /* Chunks that this thread alone reads again. */
    __device__ __forceinline__ void take(int rows) const
    {
        if constexpr (KEPT) {
            for (int l = 0; l < rows; l++)
                for (int k = 0, j = first(); j < a.n; k++, j += step())
                    copy_ahead(&place(l, k), row(l) + j);
            wait_for_copies();
        }
    }

    __device__ __forceinline__ void chunk(int l, int k, int j, float (&x)[V<T>]) const
    {
        widen<T>(KEPT ? place(l, k) : load(row(l) + j, a.n - j), x);
    }

    static __device__ __forceinline__ int first()
    {
        return (int)threadIdx.x * V<T>;
    }
    static __device__ __forceinline__ int step()
    {
        return (int)blockDim.x * V<T>;
    }
};

/* query weight */
template <class T>
__device__ __forceinline__ static void load_key(const depth_args &a, int j, float (&key)[V<T>])
{
    float weight[V<T>];
    load_vector<T>(a.query, j, a.n - j, key);
    load_vector<T>(a.weight, j, a.n - j, weight);
#pragma unroll
    for (int i = 0; i < V<T>; i++)
        key[i] *= weight[i];
}

/* each(l, of v and v or of v and dy, of v and the key), in one thread a row, for all rows. */
template <class T, bool KEPT, bool WITH_DY, class EACH>
__device__ __forceinline__ static void products(const token_rows<T, KEPT> &rows,
                                                many_sums<2 * AT_ONCE> &sums, const EACH &each)
{
    const depth_args &a = rows.a;
    for (int l = 0; l < a.depth; l += AT_ONCE) {
        float value[2 * AT_ONCE] = {};
        for (int k = 0, j = rows.first(); j < a.n; k++, j += rows.step()) {
            float key[V<T>], dy[V<T>];
            load_key<T>(a, j, key);
            if constexpr (WITH_DY)
                rows.chunk(a.depth, k, j, dy);
#pragma unroll
            for (int u = 0; u < AT_ONCE; u++) {
                if (l + u >= a.depth)
                    break;
                float x[V<T>];
                rows.chunk(l + u, k, j, x);
#pragma unroll
                for (int i = 0; i < V<T>; i++) {
                    value[2 * u] += x[i] * (WITH_DY ? dy[i] : x[i]);
                    value[2 * u + 1] += x[i] * key[i];
                }
            }
        }
        sums(value);
        const int mine = (int)threadIdx.x;
        if (mine < AT_ONCE && l + mine < a.depth)
            each(l + mine, sums.total[2 * mine], sums.total[2 * mine + 1]);
    }
    __syncthreads();
}

__device__ __forceinline__ static float warp_max(float value)
{
    for (int o = 16; o > 0; o /= 2)
        value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, o));
    return value;
}

__device__ __forceinline__ static float warp_total(float value)
{
    for (int o = 16; o > 0; o /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, o);
    return value;
}

/* Scores become alpha, which is saved: the first warp. */
__device__ __forceinline__ static void softmax(const depth_args &a, int64_t token, float *score)
{
    float max = -CUDART_INF_F, sum = 0;
    for (int l = (int)threadIdx.x; l < a.depth; l += 32)
        max = fmaxf(max, score[l]);
    max = warp_max(max);
    for (int l = (int)threadIdx.x; l < a.depth; l += 32)
        sum += score[l] = expf(score[l] - max);
    sum = warp_total(sum);
    for (int l = (int)threadIdx.x; l < a.depth; l += 32) {
        score[l] /= sum;
        if (a.alpha)
            a.alpha[token * a.depth + l] = score[l];
    }
}

template <class T, bool KEPT>
__global__ void __launch_bounds__(MOST_THREADS, 3)
    attn_res_kernel(const __grid_constant__ depth_args a)
{
    extern __shared__ uint4 memory[];
    __shared__ many_sums<2 * AT_ONCE> sums;
    float *const score = (float *)(memory + (KEPT ? a.depth * a.each * blockDim.x : 0));
    for (int64_t t = blockIdx.x; t < a.tokens; t += gridDim.x) {
        const token_rows<T, KEPT> rows = {a, memory, t};
        rows.take(a.depth);
        products<T, KEPT, false>(rows, sums, [&](int l, float squares, float product) {
            const float r = rsqrtf(squares * a.share + a.eps);
            score[l] = r * product;
            if (a.rstd)
                a.rstd[t * a.depth + l] = r;
        });
        if (threadIdx.x < 32)
            softmax(a, t, score);
        __syncthreads();
        for (int k = 0, j = rows.first(); j < a.n; k++, j += rows.step()) {
            float y[V<T>] = {};
            for (int l = 0; l < a.depth; l++) {
                float x[V<T>];
                rows.chunk(l, k, j, x);
#pragma unroll
                for (int i = 0; i < V<T>; i++)
                    y[i] += score[l] * x[i];
            }
            store(a.out.row<T>(t) + j, a.n - j, narrow<T>(y));
        }
    }
}

/* ---- backward: dv = scale dy + pull key - back v ---- */

/* Of each row: scale = alpha, pull = ds rstd, back = ds rstd^3 S / n, of da and S, which stand
 * where pull and back go: the first warp. */
__device__ __forceinline__ static void factors(const depth_args &a, int64_t token, float *number)
{
    float *const pull = number + PULL * a.depth, *const back = number + BACK * a.depth;
    float mean = 0;
    for (int l = (int)threadIdx.x; l < a.depth; l += 32)
        mean += a.alpha[token * a.depth + l] * pull[l];
    mean = warp_total(mean);
    for (int l = (int)threadIdx.x; l < a.depth; l += 32) {
        const float alpha = a.alpha[token * a.depth + l], r = a.rstd[token * a.depth + l];
        number[SCALE * a.depth + l] = alpha;
        pull[l] = alpha * (pull[l] - mean) * r;
        back[l] *= pull[l] * r * r * a.share;
    }
}

/* A chunk of all rows of dv; sum: of pull v. */
template <class T, bool KEPT>
__device__ __forceinline__ static void
gradients(const token_rows<T, KEPT> &rows, const float *number, int k, int j, float (&sum)[V<T>])
{
    const depth_args &a = rows.a;
    float dy[V<T>], key[V<T>];
    rows.chunk(a.depth, k, j, dy);
    load_key<T>(a, j, key);
    for (int l = 0; l < a.depth; l++) {
        const float scale = number[SCALE * a.depth + l], pull = number[PULL * a.depth + l],
                    back = number[BACK * a.depth + l];
        float x[V<T>], dv[V<T>];
        rows.chunk(l, k, j, x);
#pragma unroll
        for (int i = 0; i < V<T>; i++) {
            dv[i] = scale * dy[i] + (pull * key[i] - back * x[i]);
            sum[i] += pull * x[i];
        }
        store(a.out.row<T>(l * a.tokens + rows.token) + j, a.n - j, narrow<T>(dv));
    }
}

/* The block's part of dquery and of dweight, from its sum of ds rstd v. */
template <class T>
__device__ __forceinline__ static void put_parts(const depth_args &a, int j,
                                                 const float (&sum)[V<T>])
{
    float *const to = a.partial + (int64_t)blockIdx.x * 2 * a.n + j;
    float query[V<T>], weight[V<T>];
    load_vector<T>(a.query, j, a.n - j, query);
    load_vector<T>(a.weight, j, a.n - j, weight);
#pragma unroll
    for (int i = 0; i < V<T>; i++)
        if (j + i < a.n) {
            to[i] = sum[i] * weight[i];
            to[a.n + i] = sum[i] * query[i];
        }
}

/* Rows that are kept have EACH chunks of a thread at most, whose sums stay in registers; those of
 * others (EACH 0) are kept in memory, where the part of dquery goes. */
template <class T, int EACH>
__global__ void __launch_bounds__(MOST_THREADS, EACH == 1 ? 3 : 1)
    attn_res_gradient_kernel(const __grid_constant__ depth_args a)
{
    constexpr bool KEPT = EACH > 0;
    extern __shared__ uint4 memory[];
    __shared__ many_sums<2 * AT_ONCE> sums;
    float *const number = (float *)(memory + (KEPT ? (a.depth + 1) * a.each * blockDim.x : 0));
    float sum[KEPT ? EACH : 1][V<T>] = {};
    for (int64_t t = blockIdx.x; t < a.tokens; t += gridDim.x) {
        const token_rows<T, KEPT> rows = {a, memory, t};
        rows.take(a.depth + 1);
        products<T, KEPT, true>(rows, sums, [&](int l, float da, float product) {
            number[PULL * a.depth + l] = da;
            number[BACK * a.depth + l] = product;
        });
        if (threadIdx.x < 32)
            factors(a, t, number);
        __syncthreads();
        if constexpr (KEPT) {
#pragma unroll
            for (int k = 0; k < EACH; k++)
                if (rows.first() + k * rows.step() < a.n)
                    gradients(rows, number, k, rows.first() + k * rows.step(), sum[k]);
        } else {
            for (int j = rows.first(); j < a.n; j += rows.step()) {
                float *const kept = a.partial + (int64_t)blockIdx.x * 2 * a.n + j;
                float of_chunk[V<T>] = {};
                gradients(rows, number, 0, j, of_chunk);
                for (int i = 0; a.partial && i < V<T> && j + i < a.n; i++)
                    kept[i] = of_chunk[i] + (t == blockIdx.x ? 0 : kept[i]);
            }
        }
    }
    if (!a.partial)
        return;
    for (int k = 0, j = (int)threadIdx.x * V<T>; j < a.n; k++, j += (int)blockDim.x * V<T>) {
        float of_chunk[V<T>] = {};
        if constexpr (KEPT) {
#pragma unroll
            for (int u = 0; u < EACH; u++)
#pragma unroll
                for (int i = 0; i < V<T>; i++)
                    of_chunk[i] = u == k ? sum[u][i] : of_chunk[i];
        } else {
            for (int i = 0; i < V<T> && j + i < a.n; i++)
                of_chunk[i] = a.partial[(int64_t)blockIdx.x * 2 * a.n + j + i];
        }
        put_parts<T>(a, j, of_chunk);
    }
}

/* ---- calls ---- */

/* How a call is launched: threads of a block, bytes of their shared memory, blocks. */
struct depth_shape {
    int threads;
    bool kept;
    size_t shared;
    int64_t blocks;
};

/* rows: of a token, dy as well; numbers: of each block of depth. */
template <class T>
static depth_shape shape_of(const cuda_call &call, depth_args *a, int rows, int numbers)
{
    const int64_t chunks = ceil_div(a->n, V<T>);
    depth_shape s = {LEAST_THREADS, false, 0, 0};
    while (s.threads < chunks && s.threads < MOST_THREADS)
        s.threads *= 2;
    a->each = (int)ceil_div(chunks, s.threads);
    const size_t bytes = (size_t)rows * a->each * s.threads * sizeof(uint4),
                 floats = (size_t)a->depth * numbers * sizeof(float);
    const int64_t most = call.capability >= 90 ? KEPT_BYTES : KEPT_BYTES / 3;
    s.kept = element<T>::WHOLE && a->each <= MOST_EACH && (int64_t)(bytes + floats) <= most;
    s.shared = floats + (s.kept ? bytes : 0);
    const int64_t room = (most + KEPT_BYTES / 8) / (int64_t)(s.shared + OWN_BYTES),
                  walkers = WALKERS * MOST_THREADS / s.threads;
    s.blocks = min_of(a->tokens, call.processors * (room < 1 ? 1 : min_of(room, walkers)));
    return s;
}

static void launch(const cuda_call &call, const depth_shape &s, void (*kernel)(depth_args),
                   const depth_args &a)
{
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)s.shared);
    kernel<<<(unsigned)s.blocks, s.threads, s.shared, call.stream>>>(a);
}

static depth_args args_of(const tg_tensor *v, const tg_tensor *query, const tg_tensor *weight,
                          const tg_tensor *alpha, const tg_tensor *rstd, const tg_tensor *out)
{
    depth_args a = {};
    a.v = span_of(v);
    a.out = span_of(out);
    a.query = vector_of(query);
    a.weight = vector_of(weight);
    a.alpha = (float *)data_of(alpha);
    a.rstd = (float *)data_of(rstd);
    a.depth = (int)v->shape[0];
    a.tokens = rows_of(v) / a.depth;
    a.n = (int)width_of(v);
    a.share = 1 / (float)a.n;
    return a;
}

/* Widths and depths are ints, and what is kept of each block of depth fits shared memory. */
static tg_status check_size(const char *op, const tg_tensor *v)
{
    enum { MOST_DEPTH = 3840 };
    return width_of(v) <= INT32_MAX / 2 && v->shape[0] <= MOST_DEPTH
               ? TG_OK
               : cuda_host->fail(TG_EUNSUPPORTED,
                                 "%s: %lld blocks of %lld elements, expected %d of "
                                 "%d at most",
                                 op, (long long)v->shape[0], (long long)width_of(v), MOST_DEPTH,
                                 INT32_MAX / 2);
}

CUDA_OPERATOR(attn_res_forward, TG_TAKES_FLOATS);
CUDA_OPERATOR(attn_res_backward, TG_TAKES_FLOATS);

tg_status cuda_attn_res_forward(tg_ctx *ctx, const tg_attn_res_forward_args *args)
{
    cuda_call call;
    tg_status status = check_size("attn_res_forward", args->v);
    if (status == TG_OK)
        status = cuda_begin(&call, ctx, "attn_res_forward", args->v);
    if (status != TG_OK)
        return status;
    depth_args a = args_of(args->v, args->query, args->weight, args->alpha, args->rstd, args->y);
    a.eps = (float)args->eps;
    const tg_tensor *const tensors[] = {args->v, args->y, args->query, args->weight};
    if (a.tokens > 0)
        by_layout(tensors, [&](auto e) {
            using T = decltype(e);
            depth_shape s = shape_of<T>(call, &a, a.depth, 1);
            s.blocks = min_of(a.tokens, INT32_MAX);
            if (s.kept)
                launch(call, s, attn_res_kernel<T, element<T>::WHOLE>, a);
            else
                launch(call, s, attn_res_kernel<T, false>, a);
        });
    return cuda_end(&call, TG_OK);
}

template <class T>
static void launch_gradient(const cuda_call &call, const depth_shape &s, const depth_args &a)
{
    constexpr int ONE = element<T>::WHOLE ? 1 : 0, MOST = element<T>::WHOLE ? MOST_EACH : 0;
    launch(call, s,
           !s.kept       ? attn_res_gradient_kernel<T, 0>
           : a.each == 1 ? attn_res_gradient_kernel<T, ONE>
                         : attn_res_gradient_kernel<T, MOST>,
           a);
}

tg_status cuda_attn_res_backward(tg_ctx *ctx, const tg_attn_res_backward_args *args)
{
    cuda_call call;
    tg_status status = check_size("attn_res_backward", args->v);
    if (status == TG_OK)
        status = cuda_begin(&call, ctx, "attn_res_backward", args->v);
    if (status != TG_OK)
        return status;
    depth_args a = args_of(args->v, args->query, args->weight, args->alpha, args->rstd, args->dv);
    a.dy = span_of(args->dy);
    part_args<2, 0> sums = {};
    sums.n = a.n;
    sums.accumulate = args->accumulate != 0;
    sums.out[0] = vector_of(args->dquery);
    sums.out[1] = vector_of(args->dweight);
    const bool wanted = a.n > 0 && asks_for_sums(sums);
    const tg_tensor *const tensors[] = {args->v, args->dy, args->dv, args->query, args->weight};
    by_layout(tensors, [&](auto e) {
        using T = decltype(e);
        const depth_shape s = shape_of<T>(call, &a, a.depth + 1, NUMBERS);
        if (wanted)
            status = take_parts(ctx, s.blocks, 0, &sums);
        a.partial = wanted ? (float *)sums.columns : NULL;
        if (status == TG_OK && a.tokens > 0)
            launch_gradient<T>(call, s, a);
        if (status == TG_OK && wanted)
            sum_parts<T>(call, sums);
    });
    return cuda_end(&call, status);
}
