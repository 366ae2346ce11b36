/* gemm_block_scaled_hopper.cu - products of E4M3 on GPUs of compute capability 9.0
 * (gemm_block_scaled_hopper.cuh): where rows begin at multiples of 16 bytes. */
#include "gemm_block_scaled.h"
#include "gemm_block_scaled_hopper.cuh"
#include "host/tensor_map.h"
#include "rows/launch_clusters.cuh"

/* Whether copies of tiles can move the rows of a tensor. */
static bool has_tiles(const tg_tensor *t)
{
    const int64_t size = (int64_t)tg_type_size(tg_type_of(t)), stride = stride_of(t);
    return (uintptr_t)data_of(t) % 16 == 0 && stride >= width_of(t) && stride * size % 16 == 0 &&
           t->shape[0] > 0 && t->shape[0] <= INT32_MAX / 2 && t->shape[1] > 0 &&
           t->shape[1] <= INT32_MAX / 2;
}

/* Copies from shared memory write whole words: of rows of an odd number of 16-bit elements one
 * element beyond the end, which is the caller's. */
int cuda_gemm_block_scaled_sm90_accepts(const tg_gemm_block_scaled_args *a)
{
    return has_tiles(a->a) && has_tiles(a->b) && has_tiles(a->c) &&
           (tg_type_of(a->c) == TG_F32 || a->c->shape[1] % 2 == 0);
}

static bool map_lines(CUtensorMap *map, const block_scaled_operand &o, int64_t k, int lines)
{
    return cuda_tensor_map(map, TG_F8E4M3, o.data, o.lines, k, o.stride, lines);
}

template <class SHAPE, class C>
static bool launch_shape(const cuda_call &call, block_scaled_product &p,
                         const tg_gemm_block_scaled_args *args)
{
    static int known;
    const auto kernel = block_scaled_kernel<SHAPE, C>;
    const int64_t k = args->a->shape[1];
    if (!map_lines(&p.a, p.of_a, k, SHAPE::A_LINES) || !map_lines(&p.b, p.of_b, k, SHAPE::B_LINES))
        return false;
    p.rows = (int)ceil_div(p.of_a.lines, SHAPE::M * SHAPE::M_BLOCKS);
    p.columns = (int)ceil_div(p.of_b.lines, SHAPE::N * SHAPE::N_BLOCKS);
    p.steps = (int)ceil_div(k, SCALED_K);
    p.together = 8;
    return launch_clusters(call, &known, kernel, CLUSTER, SHAPE::THREADS, SHAPE::SHARED,
                           (int64_t)p.rows * p.columns, p);
}

template <class C>
static bool launch_product(const cuda_call &call, const tg_gemm_block_scaled_args *args)
{
    block_scaled_product p = {};
    p.of_a = block_scaled_of(args->a, args->scale_a);
    p.of_b = block_scaled_of(args->b, args->scale_b);
    p.to = span_of(args->c);
    p.addend = span_of(args->addend);
    if (call.capability != 90 ||
        (sizeof(C) == 2 && !cuda_tensor_map(&p.c, tg_type_of(args->c), p.to.data, p.of_a.lines,
                                            p.of_b.lines, p.to.stride, PIECE_M)))
        return false;
    return p.of_b.shift ? launch_shape<scaled_shape<2, 1, 2, 1, 3, 2, 0>, C>(call, p, args)
                        : launch_shape<scaled_shape<2, 1, 2, 1, 3, 2, 1>, C>(call, p, args);
}

tg_status cuda_gemm_block_scaled_sm90(tg_ctx *ctx, const tg_gemm_block_scaled_args *args)
{
    cuda_call call;
    const tg_status status = cuda_begin(&call, ctx, "gemm_block_scaled", args->c);
    if (status != TG_OK)
        return status;
    bool done = false;
    by_type(args->c, [&](auto c) { done = launch_product<decltype(c)>(call, args); });
    return cuda_end(&call, done ? TG_OK : TG_EUNSUPPORTED);
}
