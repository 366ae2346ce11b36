/* tools/tigon/limits/gemm.c - the rate of products on plain row-major matrices: of oneDNN, or in a
 * build without it of tg_gemm. */
#include "gemm.h"

#include <stdlib.h>

const char *gemm_limit_name(const gemm_limit *limit)
{
    return limit->name;
}

static void *matrix_of(const gemm_limit *l, int64_t elements)
{
    return is_apart(l->ctx) ? device_matrix(l->ctx, l->type, elements)
                            : host_matrix(l->type, elements);
}

int gemm_make_matrices(gemm_limit *l)
{
    const gemm_work *w = &l->work;
    l->a = matrix_of(l, w->m * w->k);
    l->b = matrix_of(l, w->k * w->n);
    l->c = matrix_of(l, w->m * w->n);
    return l->a && l->b && l->c;
}

void gemm_drop_matrices(gemm_limit *l)
{
    void **const all[] = {&l->a, &l->b, &l->c};
    for (int i = 0; i < 3; i++) {
        if (is_apart(l->ctx))
            tg_free(l->ctx, *all[i]);
        else
            free(*all[i]);
        *all[i] = NULL;
    }
}

tg_status gemm_run_by(gemm_limit *l, tg_ctx *ctx)
{
    const gemm_work *w = &l->work;
    const int64_t a_shape[2] = {w->trans_a ? w->k : w->m, w->trans_a ? w->m : w->k};
    const int64_t b_shape[2] = {w->trans_b ? w->n : w->k, w->trans_b ? w->k : w->n};
    const int64_t c_shape[2] = {w->m, w->n};
    tg_tensor a = tg_tensor_of(l->a, (tg_type)l->type, 2, a_shape);
    tg_tensor b = tg_tensor_of(l->b, (tg_type)l->type, 2, b_shape);
    tg_tensor c = tg_tensor_of(l->c, (tg_type)l->type, 2, c_shape);
    a.device.device_type = b.device.device_type = c.device.device_type = tg_ctx_device_type(l->ctx);
    return tg_gemm(
        ctx,
        &(tg_gemm_args){.a = &a, .b = &b, .c = &c, .trans_a = w->trans_a, .trans_b = w->trans_b});
}

static void run_own(gemm_limit *l)
{
    gemm_run_by(l, l->ctx);
}

static int prepare_own(gemm_limit *l, int type)
{
    l->type = type;
    l->name = "tg_gemm";
    if (!gemm_make_matrices(l))
        return 0;
    if (is_apart(l->ctx)) {
        run_own(l);
        l->name = tg_ctx_last_impl(l->ctx);
    }
    return 1;
}

#ifndef TIGON_ONEDNN

void product_drop(gemm_limit *l)
{
    (void)l;
}

void product_run(gemm_limit *l)
{
    run_own(l);
}

int product_prepare(gemm_limit *l, int type)
{
    return prepare_own(l, type);
}

#endif

void gemm_limit_run(gemm_limit *l)
{
    if (is_apart(l->ctx))
        run_own(l);
    else
        product_run(l);
}

gemm_limit *gemm_limit_new(tg_ctx *ctx, int type, const gemm_work *work)
{
    gemm_limit *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->ctx = ctx;
    l->work = *work;
    if (work->m > 0 && work->n > 0 && work->k > 0 &&
        (is_apart(ctx) ? prepare_own(l, type) : product_prepare(l, type)))
        return l;
    gemm_limit_free(l);
    return NULL;
}

void gemm_limit_free(gemm_limit *l)
{
    if (!l)
        return;
    product_drop(l);
    gemm_drop_matrices(l);
    tg_ctx_destroy(l->blas);
    free(l);
}
