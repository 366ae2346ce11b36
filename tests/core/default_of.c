/* The function that a backend delegates to takes every problem, not only those of the first
 * implementation: products that oneDNN's refuses. */
#include <math.h>

#include "../common/test.h"
#include <tigon/backend.h>

static const tg_host *host;

static tg_status keep(const tg_host *services)
{
    host = services;
    return TG_OK;
}

static tg_status delegate(tg_ctx *ctx, const tg_gemm_args *args)
{
    return ((tg_gemm_fn)host->default_of(ctx, "gemm"))(ctx, args);
}

static const tg_impl impls[] = {TG_IMPL(gemm, "", 0, TG_TAKES_FLOATS, NULL, delegate),
                                TG_IMPLS_END};
static const tg_backend acme = {TG_ABI,        sizeof(tg_backend), "acme",        "cpu",
                                TG_DEVICE_CPU, .open = keep,       .impls = impls};

enum { M = 5, N = 7, K = 9 };

/* Products of ones: K alpha everywhere. */
static void multiply(tg_ctx *ctx, tg_type type, unsigned one, double alpha)
{
    uint16_t a[M * K], b[K * N];
    float fa[M * K], fb[K * N], c[M * N] = {0};
    for (int i = 0; i < M * K; i++)
        a[i] = (uint16_t)one, fa[i] = 1;
    for (int i = 0; i < K * N; i++)
        b[i] = (uint16_t)one, fb[i] = 1;
    const int64_t am[] = {M, K}, bm[] = {K, N}, cm[] = {M, N};
    const int wide = type == TG_F32;
    const tg_tensor ta = tg_tensor_of(wide ? (void *)fa : a, type, 2, am);
    const tg_tensor tb = tg_tensor_of(wide ? (void *)fb : b, type, 2, bm);
    tg_tensor tc = tg_tensor_of(c, TG_F32, 2, cm);
    const tg_status status =
        tg_gemm(ctx, &(tg_gemm_args){.a = &ta, .b = &tb, .c = &tc, .alpha = alpha});
    EXPECT(!status, "%s", tg_last_error());
    EXPECT(!strcmp(tg_ctx_last_impl(ctx), "acme/gemm"), "%s ran", tg_ctx_last_impl(ctx));
    for (int i = 0; i < M * N; i++)
        EXPECT(fabs((double)c[i] - K * alpha) < 1e-5, "%s, alpha %g: c[%d] is %g",
               tg_type_name(type), alpha, i, (double)c[i]);
}

int main(void)
{
    EXPECT(!tg_backend_register(&acme), "%s", tg_last_error());
    tg_ctx *ctx = new_context();
    EXPECT(!tg_ctx_set_impl(ctx, "acme"), "%s", tg_last_error());
    multiply(ctx, TG_F32, 0, 1);
    multiply(ctx, TG_F32, 0, 0.3);
    multiply(ctx, TG_BF16, 0x3f80, 1);
    multiply(ctx, TG_BF16, 0x3f80, 0.3);
    multiply(ctx, TG_F16, 0x3c00, 1);
    multiply(ctx, TG_F16, 0x3c00, 0.3);
    EXPECT(!host->default_of(ctx, "no_such"), "an unknown operator has a default");
    tg_ctx_destroy(ctx);
    return report();
}
