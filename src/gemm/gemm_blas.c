/* src/gemm/gemm_blas.c - products in f32 by a BLAS that is there when the program runs
 * (core/blas.h), block by block. */
#include "core/blas.h"
#include "core/ceiling.h"
#include "core/parts.h"
#include "gemm_blocks.h"

static void run_blocks(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const gemm_blocks *g = arg;
    const tg_blas *blas = tg_blas_find();
    const float one = 1, beta = g->whole.beta;
    const int before = blas->hold_threads ? blas->hold_threads(1) : 0;
    for (int64_t i = begin; i < end; i++) {
        const char *a, *b;
        char *c;
        const call w = gemm_block(g, i, &a, &b, &c);
        gemm_begin_block(g, i, c);
        /* Matrices there are stored by columns: b and a change places. */
        blas->sgemm(w.trans_b ? "T" : "N", w.trans_a ? "T" : "N", &w.n, &w.m, &w.k, &one,
                    (const float *)b, &w.ld_b, (const float *)a, &w.ld_a, &beta, (float *)c,
                    &w.ld_c);
    }
    if (blas->hold_threads)
        blas->hold_threads(before);
}

static tg_status run(tg_ctx *ctx, const tg_gemm_args *args)
{
    gemm_blocks g = gemm_cut(args);
    if (tg_reserving(ctx))
        return TG_OK;
    if (g.count == 0)
        gemm_add_alone(args);
    tg_parallel_for(ctx, g.count, 1, run_blocks, &g);
    return TG_OK;
}

/* It knows no ceiling of the processor's instructions. */
static int accepts(const tg_gemm_args *args)
{
    const gemm_blocks g = gemm_cut(args);
    const call *w = &g.whole;
    const int64_t sizes = w->k | w->ld_a | w->ld_b | w->ld_c; /* m and n are those of blocks */
    return args->alpha == 1 && sizes <= INT32_MAX && gemm_plain_strides(args) &&
           gemm_adds_to_c(args) && !tg_cpu_is_held() && tg_blas_find()->sgemm;
}

static tg_status run_batch(tg_ctx *ctx, const tg_batched_gemm_args *args)
{
    return gemm_run_batch(ctx, args, run);
}

static int accepts_batch(const tg_batched_gemm_args *args)
{
    const tg_gemm_args all = gemm_of_batch(args);
    return accepts(&all);
}

const tg_impl tg_impls_gemm_blas[] = {
    TG_IMPL(gemm, "blas", TG_CPU_PROCESS, TG_TAKES_F32, accepts, run),
    TG_IMPL(batched_gemm, "blas", TG_CPU_PROCESS, TG_TAKES_F32, accepts_batch, run_batch),
    TG_IMPLS_END};
