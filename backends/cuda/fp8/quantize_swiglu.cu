/* quantize_swiglu.cu - E4M3 of what a gate gives, and of its gradients: a tile of 128 x 128
 * elements is computed in the registers that quantize_block.cuh quantises, as swiglu.cu computes
 * them. */
#include "quantize_block.cuh"
#include "rows/logistic.cuh"

/* ---- forward ---- */

template <class T>
__global__ void __launch_bounds__(QUANTIZE_THREADS)
    quantize_swiglu_kernel(const quantize_block_problem p, const row_span up)
{
    __shared__ tile_memory m;
    const tile_place at(p, blockIdx.x);
    own_elements<T> y;
    y.load_by(p, at.row, at.column, [&](int64_t r, int64_t j) {
        float u[V<T>], v[V<T>];
        widen<T>(load(p.x.row<T>(r) + j, p.columns - j), u);
        widen<T>(load(up.row<T>(r) + j, p.columns - j), v);
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            v[i] = u[i] * logistic_of(u[i]).value * v[i];
        return narrow<T>(v);
    });
    quantize_tile(p, y, m, at);
}

/* ---- backward ---- */

/* What a block of threads makes of its tile. Those of one tile come one after the other, so that
 * all but the first find its elements in L2. */
enum result { OF_GATE, OF_UP, OF_Y };

struct gradient_problem {
    quantize_block_problem p; /* x: gate; plain, turned: of dgate, and behind it dup */
    quantized y;              /* of its transpose */
    row_span dy, up;
    int first, results; /* the first of them that is wanted, and how many */
};

/* The problem of one of the results. */
__device__ __forceinline__ quantize_block_problem problem_of(const gradient_problem &a, int which)
{
    quantize_block_problem p = a.p;
    if (which == OF_UP && p.plain.q) {
        p.plain.q += p.columns;
        p.plain.scale += p.columns / BLOCK_EDGE * p.plain.scale_stride;
    }
    if (which == OF_UP && p.turned.q) {
        p.turned.q += p.columns * p.turned.stride;
        p.turned.scale += p.columns;
    }
    if (which == OF_Y) {
        p.plain.q = NULL;
        p.turned = a.y;
    }
    return p;
}

__device__ __forceinline__ float result_of(int which, float dy, float u, float v)
{
    const logistic s = logistic_of(u);
    if (which == OF_GATE)
        return dy * v * s.value * (1 + u * s.rest);
    return which == OF_UP ? dy * u * s.value : u * s.value * v;
}

template <class T>
__global__ void __launch_bounds__(QUANTIZE_THREADS)
    quantize_swiglu_gradient_kernel(const gradient_problem a)
{
    __shared__ tile_memory m;
    const int which = a.first + (int)(blockIdx.x % a.results);
    const quantize_block_problem p = problem_of(a, which);
    const tile_place at(p, blockIdx.x / a.results);
    own_elements<T> d;
    d.load_by(p, at.row, at.column, [&](int64_t r, int64_t j) {
        float dy[V<T>], u[V<T>], v[V<T>];
        widen<T>(load(a.dy.row<T>(r) + j, p.columns - j), dy);
        widen<T>(load(p.x.row<T>(r) + j, p.columns - j), u);
        widen<T>(load(a.up.row<T>(r) + j, p.columns - j), v);
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            v[i] = result_of(which, dy[i], u[i], v[i]);
        return narrow<T>(v);
    });
    quantize_tile(p, d, m, at);
}

/* ---- calls ---- */

CUDA_OPERATOR(quantize_swiglu, TG_TAKES_FLOATS);
CUDA_OPERATOR(quantize_swiglu_gradient, TG_TAKES_FLOATS);

/* Launches run(call) on so many blocks, if there are any. */
template <class F>
static tg_status on_tiles(tg_ctx *ctx, const char *op, const tg_tensor *x, int64_t blocks, F run)
{
    if (blocks == 0)
        return TG_OK;
    if (blocks > INT32_MAX)
        return TG_EUNSUPPORTED;
    cuda_call call;
    const tg_status status = cuda_begin(&call, ctx, op, x);
    if (status != TG_OK)
        return status;
    run(call);
    return cuda_end(&call, TG_OK);
}

tg_status cuda_quantize_swiglu(tg_ctx *ctx, const tg_quantize_swiglu_args *a)
{
    const quantize_block_problem p = quantize_block_problem_of(a->gate, a);
    const int64_t tiles = tiles_of(p);
    return on_tiles(ctx, "quantize_swiglu", a->gate, tiles, [&](const cuda_call &call) {
        by_layout({a->gate, a->up}, [&](auto t) {
            quantize_swiglu_kernel<decltype(t)>
                <<<(unsigned)tiles, QUANTIZE_THREADS, 0, call.stream>>>(p, span_of(a->up));
        });
    });
}

tg_status cuda_quantize_swiglu_gradient(tg_ctx *ctx, const tg_quantize_swiglu_gradient_args *a)
{
    gradient_problem g = {};
    g.p = quantize_block_problem_of(a->gate, a);
    g.y = quantized_of(a->yt, a->scale_yt);
    g.dy = span_of(a->dy);
    g.up = span_of(a->up);
    g.first = a->q || a->qt ? OF_GATE : OF_Y;
    g.results = (g.first == OF_GATE ? 2 : 0) + (a->yt != NULL);
    const int64_t blocks = tiles_of(g.p) * g.results;
    return on_tiles(ctx, "quantize_swiglu_gradient", a->gate, blocks, [&](const cuda_call &call) {
        by_layout({a->gate, a->up, a->dy}, [&](auto t) {
            quantize_swiglu_gradient_kernel<decltype(t)>
                <<<(unsigned)blocks, QUANTIZE_THREADS, 0, call.stream>>>(g);
        });
    });
}
