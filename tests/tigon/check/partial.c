/* partial.c - small plug-ins, one of which the variable PARTIAL chooses: each takes a part of what
 * its operators are asked for. partial.sh says what tigon check must find out about each.
 */
#include <stdlib.h>
#include <string.h>
#include <tigon/backend.h>

static const tg_host *host;

static float *row_of(const tg_tensor *t, int64_t r)
{
    return (float *)((char *)t->data + t->byte_offset) +
           r * (t->strides ? t->strides[0] : t->shape[1]);
}

static void multiply(const tg_tensor *t, float factor)
{
    for (int64_t r = 0; r < t->shape[0]; r++)
        for (int64_t i = 0; i < t->shape[1]; i++)
            row_of(t, r)[i] *= factor;
}

/* ---- cross_entropy as a trainer asks for it: loss and gradient, no option ---- */

typedef tg_cross_entropy_forward_args ce;

static tg_status default_ce(tg_ctx *ctx, const ce *args)
{
    return ((tg_cross_entropy_forward_fn)host->default_of(ctx, "cross_entropy_forward"))(ctx, args);
}

static int bare_accepts(const ce *a)
{
    return !a->class_weight && !a->z_loss && !a->accuracy && !a->predicted && a->dlogits &&
           a->label_smoothing == 0 && a->lse_square_scale == 0 && a->softcap == 0 &&
           !a->token_scaling;
}

static int bare_f32_accepts(const ce *a)
{
    return bare_accepts(a) && tg_type_of(a->logits) == TG_F32 && tg_type_of(a->dlogits) == TG_F32 &&
           a->logits->ndim == 2;
}

static tg_status wrong_gradient(tg_ctx *ctx, const ce *a)
{
    const tg_status status = default_ce(ctx, a);
    if (!status)
        multiply(a->dlogits, 1.5f);
    return status;
}

/* The loss alone: whoever wants the gradient gets the default's. */
static int loss_accepts(const ce *a)
{
    return !a->dlogits;
}

/* ---- a part of what a composite takes as well: the loss without gradients ---- */

typedef tg_fused_linear_cross_entropy_forward_args flce;

static int no_gradients_accepts(const flce *a)
{
    return !a->dx && !a->dweight && !a->dbias;
}

static tg_status no_gradients(tg_ctx *ctx, const flce *a)
{
    return ((tg_fused_linear_cross_entropy_forward_fn)host->default_of(
        ctx, "fused_linear_cross_entropy_forward"))(ctx, a);
}

/* ---- a part of other operators: wrong as they call it, with a product of bf16 into f32 ---- */

/* What the default's first implementation accepts. */
static int product_accepts(const tg_gemm_args *a)
{
    return tg_type_of(a->a) != TG_F16 && !a->trans_a && a->alpha == 1 && a->beta == 0;
}

static tg_status product(tg_ctx *ctx, const tg_gemm_args *a)
{
    const tg_status status = ((tg_gemm_fn)host->default_of(ctx, "gemm"))(ctx, a);
    if (!status && a->trans_b && tg_type_of(a->a) == TG_BF16 && tg_type_of(a->c) == TG_F32)
        multiply(a->c, 1.01f);
    return status;
}

/* ---- one type; nothing at all ---- */

static int f32_accepts(const tg_rms_norm_forward_args *a)
{
    return tg_type_of(a->x) == TG_F32 && (!a->weight || tg_type_of(a->weight) == TG_F32);
}

static tg_status norm(tg_ctx *ctx, const tg_rms_norm_forward_args *a)
{
    return ((tg_rms_norm_forward_fn)host->default_of(ctx, "rms_norm_forward"))(ctx, a);
}

static tg_status refuse(tg_ctx *ctx, const tg_rms_norm_forward_args *a)
{
    (void)ctx, (void)a;
    return host->fail(TG_EUNSUPPORTED, "takes nothing");
}

/* ---- the plug-ins ---- */

static const tg_impl wrong[] = {
    TG_IMPL(cross_entropy_forward, "", 0, TG_TAKES_FLOATS, bare_f32_accepts, wrong_gradient),
    TG_IMPLS_END};
static const tg_impl bare[] = {
    TG_IMPL(cross_entropy_forward, "", 0, TG_TAKES_FLOATS, bare_accepts, default_ce), TG_IMPLS_END};
static const tg_impl loss[] = {
    TG_IMPL(cross_entropy_forward, "", 0, TG_TAKES_FLOATS, loss_accepts, default_ce), TG_IMPLS_END};
static const tg_impl all[] = {
    TG_IMPL(cross_entropy_forward, "", 0, TG_TAKES_FLOATS, NULL, default_ce), TG_IMPLS_END};
static const tg_impl composed[] = {TG_IMPL(fused_linear_cross_entropy_forward, "", 0,
                                           TG_TAKES_FLOATS, no_gradients_accepts, no_gradients),
                                   TG_IMPLS_END};
static const tg_impl gemm[] = {TG_IMPL(gemm, "", 0, TG_TAKES_FLOATS, product_accepts, product),
                               TG_IMPLS_END};
static const tg_impl f32[] = {TG_IMPL(rms_norm_forward, "", 0, TG_TAKES_FLOATS, f32_accepts, norm),
                              TG_IMPLS_END};
static const tg_impl nothing[] = {TG_IMPL(rms_norm_forward, "", 0, TG_TAKES_FLOATS, NULL, refuse),
                                  TG_IMPLS_END};

static const struct {
    const char *name;
    const tg_impl *impls;
} tables[] = {{"wrong", wrong},       {"bare", bare}, {"loss", loss}, {"all", all},
              {"composed", composed}, {"gemm", gemm}, {"f32", f32},   {"nothing", nothing}};

static tg_status open_partial(const tg_host *h)
{
    host = h;
    return TG_OK;
}

TG_BACKEND_ENTRY
{
    static tg_backend partial = {
        .abi = TG_ABI,
        .size = sizeof(tg_backend),
        .vendor = "partial",
        .device = "cpu",
        .device_type = TG_DEVICE_CPU,
        .open = open_partial,
    };
    const char *name = getenv("PARTIAL");
    for (size_t i = 0; name && i < sizeof tables / sizeof *tables; i++)
        if (!strcmp(tables[i].name, name))
            partial.impls = tables[i].impls;
    return &partial;
}
