/* tools/tigon/limits/gemm_onednn.c - products by oneDNN alone with its own threads, 2.6 or 3.x, or
 * in f32 by a BLAS that is there. */
#ifdef TIGON_ONEDNN

#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdlib.h>
#include <string.h>

#include "gemm.h"

enum { MATMUL, SGEMM, BLAS, WAYS };

struct product {
    int way;
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t args[3];
    dnnl_memory_t memory[3];
};

static dnnl_engine_t engine;
static dnnl_stream_t stream;

/* oneDNN takes OpenMP's number of threads; libgomp is there if oneDNN is, without linking it. */
static void set_threads(int threads)
{
    void (*set)(int);
    void *symbol = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    memcpy(&set, &symbol, sizeof set);
    if (symbol)
        set(threads);
}

static int make_memory(dnnl_memory_desc_t *desc, dnnl_memory_t *memory, const dnnl_dims_t dims,
                       const dnnl_dims_t strides, dnnl_data_type_t type, void *data)
{
#if DNNL_VERSION_MAJOR >= 3
    if (dnnl_memory_desc_create_with_strides(desc, 2, dims, type, strides) != dnnl_success)
        return 0;
    return dnnl_memory_create(memory, *desc, engine, data) == dnnl_success;
#else
    if (dnnl_memory_desc_init_by_strides(desc, 2, dims, type, strides) != dnnl_success)
        return 0;
    return dnnl_memory_create(memory, desc, engine, data) == dnnl_success;
#endif
}

static int make_matmul(gemm_limit *l)
{
    const gemm_work *w = &l->work;
    const dnnl_data_type_t type = l->type == TG_F32    ? dnnl_f32
                                  : l->type == TG_BF16 ? dnnl_bf16
                                                       : dnnl_f16;
    const dnnl_dims_t dims[3] = {{w->m, w->k}, {w->k, w->n}, {w->m, w->n}};
    const dnnl_dims_t strides[3] = {{w->trans_a ? 1 : w->k, w->trans_a ? w->m : 1},
                                    {w->trans_b ? 1 : w->n, w->trans_b ? w->k : 1},
                                    {w->n, 1}};
    static const int slots[3] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    void *const data[3] = {l->a, l->b, l->c};
    dnnl_memory_desc_t desc[3];
    for (int i = 0; i < 3; i++) {
        if (!make_memory(&desc[i], &l->onednn->memory[i], dims[i], strides[i], type, data[i]))
            return 0;
        l->onednn->args[i].arg = slots[i];
        l->onednn->args[i].memory = l->onednn->memory[i];
    }
    dnnl_primitive_desc_t pd = NULL;
#if DNNL_VERSION_MAJOR >= 3
    int ok = dnnl_matmul_primitive_desc_create(&pd, engine, desc[0], desc[1], NULL, desc[2],
                                               NULL) == dnnl_success;
    for (int i = 0; i < 3; i++)
        dnnl_memory_desc_destroy(desc[i]);
#else
    dnnl_matmul_desc_t op;
    int ok = dnnl_matmul_desc_init(&op, &desc[0], &desc[1], NULL, &desc[2]) == dnnl_success &&
             dnnl_primitive_desc_create(&pd, &op, NULL, engine, NULL) == dnnl_success;
#endif
    ok = ok && dnnl_primitive_create(&l->onednn->primitive, pd) == dnnl_success;
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    return ok;
}

void product_drop(gemm_limit *l)
{
    if (l->onednn && l->onednn->primitive)
        dnnl_primitive_destroy(l->onednn->primitive);
    for (int i = 0; l->onednn && i < 3; i++)
        if (l->onednn->memory[i])
            dnnl_memory_destroy(l->onednn->memory[i]);
    free(l->onednn);
    l->onednn = NULL;
}

void product_run(gemm_limit *l)
{
    const gemm_work *w = &l->work;
    if (l->onednn->way == BLAS) {
        gemm_run_by(l, l->blas);
        return;
    }
    set_threads(tg_ctx_threads(l->ctx));
    if (l->onednn->way == SGEMM) {
        dnnl_sgemm(w->trans_a ? 'T' : 'N', w->trans_b ? 'T' : 'N', w->m, w->n, w->k, 1.0f, l->a,
                   w->trans_a ? w->m : w->k, l->b, w->trans_b ? w->k : w->n, 0.0f, l->c, w->n);
        return;
    }
    dnnl_primitive_execute(l->onednn->primitive, stream, 3, l->onednn->args);
    dnnl_stream_wait(stream);
}

enum { RUNS = 2 };

static double best_by(gemm_limit *l, int way)
{
    double best = 1e30;
    l->onednn->way = way;
    product_run(l);
    for (int i = 0; i < RUNS; i++) {
        const double t0 = seconds();
        product_run(l);
        const double t = seconds() - t0;
        best = t < best ? t : best;
    }
    return best;
}

/* A context whose products are a BLAS's. NULL: none is there, or takes these. */
static tg_ctx *open_blas(gemm_limit *l)
{
    tg_ctx *ctx;
    if (tg_ctx_create(&ctx))
        return NULL;
    if (tg_ctx_set_threads(ctx, tg_ctx_threads(l->ctx)) ||
        tg_ctx_set_op_impl(ctx, "gemm", "cpu/gemm.blas") || gemm_run_by(l, ctx)) {
        tg_ctx_destroy(ctx);
        return NULL;
    }
    return ctx;
}

/* The library holds oneDNN to TIGON_CPU_MAX when it first uses it; that has to come first. */
static void hold_onednn(void)
{
    float one = 1, c;
    const int64_t shape[] = {1, 1};
    tg_tensor a = tg_tensor_of(&one, TG_F32, 2, shape), out = tg_tensor_of(&c, TG_F32, 2, shape);
    tg_ctx *ctx;
    if (!tg_ctx_create(&ctx))
        tg_gemm(ctx, &(tg_gemm_args){.a = &a, .b = &a, .c = &out});
    tg_ctx_destroy(ctx);
}

static int open_engine(void)
{
    if (!engine)
        hold_onednn();
    if (!engine && dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success)
        engine = NULL;
    if (engine && !stream &&
        dnnl_stream_create(&stream, engine, dnnl_stream_default_flags) != dnnl_success)
        stream = NULL;
    return stream != NULL;
}

/* For f32 the fastest of oneDNN's two ways and a BLAS. For 16 bits f32's if it is the only one. */
int product_prepare(gemm_limit *l, int type)
{
    static const char *const names[WAYS] = {"oneDNN matmul", "oneDNN sgemm", "a BLAS's sgemm"};
    l->type = type;
    if (!open_engine() || !(l->onednn = calloc(1, sizeof *l->onednn)))
        return 0;
    if (!gemm_make_matrices(l) || !make_matmul(l)) {
        product_drop(l);
        gemm_drop_matrices(l);
        if (type == TG_F32)
            return 0;
        if (!product_prepare(l, TG_F32))
            return 0;
        l->name = "oneDNN sgemm, no 16-bit product";
        return 1;
    }
    if (type != TG_F32) {
        l->name = type == TG_BF16 ? "oneDNN bf16 matmul" : "oneDNN f16 matmul";
        return 1;
    }
    l->blas = open_blas(l);
    double best = best_by(l, MATMUL);
    int way = MATMUL;
    for (int i = SGEMM; i < (l->blas ? WAYS : BLAS); i++) {
        const double time = best_by(l, i);
        way = time < best ? i : way;
        best = time < best ? time : best;
    }
    l->onednn->way = way;
    l->name = names[way];
    return 1;
}

#endif
