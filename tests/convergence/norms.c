/* norms.c - two backends, `layernorm` and `dyt`: whoever trains a Llama with one of them trains a
 * net whose norms are layer_norm or dyt, and whose gates are GEGLU's.
 *
 * The weight w of a norm is all the parameters it has: weight w and bias w - 1 of layer_norm; gamma
 * w, beta w - 1 and alpha w[0] / 2 of dyt. So it begins where such nets begin, with 1, 0 and 0.5,
 * and its gradient is the sum of all parameter gradients. */
#include "norms.h"

#include "numbers.h"

static const tg_host *host;

#define CALL(ctx, op, ...) host->call(ctx, #op, &(tg_##op##_args){__VA_ARGS__})
#define TRY(call)                    \
    do {                             \
        const tg_status s_ = (call); \
        if (s_ != TG_OK)             \
            return s_;               \
    } while (0)

/* What a norm has beside its weight: parameters made of it, what forward saves, gradients
 * of the parameters. */
typedef struct parts {
    tg_tensor bias, alpha, y, mean, rstd, dweight, dbias, dalpha;
    int64_t shape[2], one;
} parts;

static tg_status take_parts(tg_ctx *ctx, const tg_tensor *x, const tg_tensor *weight, parts *p)
{
    const tg_rows r = tg_rows_of(x);
    p->shape[0] = r.rows;
    p->shape[1] = r.n;
    p->one = 1;
    tg_tensor *const vectors[] = {&p->bias, &p->dweight, &p->dbias};
    tg_tensor *const columns[] = {&p->mean, &p->rstd};
    float *at =
        host->workspace(ctx, (size_t)(r.rows * r.n + 3 * r.n + 2 * r.rows + 2) * sizeof(*at));
    if (!at)
        return TG_ENOMEM;
    p->y = tg_tensor_of(at, r.type, 2, p->shape);
    at += r.rows * r.n;
    for (int i = 0; i < 3; i++, at += r.n)
        *vectors[i] = tg_tensor_of(at, TG_F32, 1, &p->shape[1]);
    for (int i = 0; i < 2; i++, at += r.rows)
        *columns[i] = tg_tensor_of(at, TG_F32, 1, &p->shape[0]);
    p->alpha = tg_tensor_of(at, TG_F32, 1, &p->one);
    p->dalpha = tg_tensor_of(at + 1, TG_F32, 1, &p->one);
    for (int64_t i = 0; i < r.n; i++)
        put(&p->bias, i, get(weight, i) - 1);
    put(&p->alpha, 0, get(weight, 0) / 2);
    put(&p->dalpha, 0, 0);
    return TG_OK;
}

/* ---- the norms: y of x; dx, and the gradients of the parts, of dy and x ---- */

static tg_status layer_norm(tg_ctx *ctx, const tg_tensor *x, const tg_tensor *weight, parts *p,
                            tg_tensor *y)
{
    return CALL(ctx, layer_norm_forward, .x = x, .weight = weight, .bias = &p->bias, .y = y,
                .mean = &p->mean, .rstd = &p->rstd);
}

static tg_status layer_norm_back(tg_ctx *ctx, const tg_tensor *dy, const tg_tensor *x,
                                 const tg_tensor *weight, parts *p, tg_tensor *dx)
{
    TRY(layer_norm(ctx, x, weight, p, &p->y));
    return CALL(ctx, layer_norm_backward, .dy = dy, .x = x, .weight = weight, .mean = &p->mean,
                .rstd = &p->rstd, .dx = dx, .dweight = &p->dweight, .dbias = &p->dbias);
}

static tg_status dyt(tg_ctx *ctx, const tg_tensor *x, const tg_tensor *weight, parts *p,
                     tg_tensor *y)
{
    return CALL(ctx, dyt_forward, .x = x, .alpha = &p->alpha, .gamma = weight, .beta = &p->bias,
                .y = y);
}

static tg_status dyt_back(tg_ctx *ctx, const tg_tensor *dy, const tg_tensor *x,
                          const tg_tensor *weight, parts *p, tg_tensor *dx)
{
    return CALL(ctx, dyt_backward, .dy = dy, .x = x, .alpha = &p->alpha, .gamma = weight, .dx = dx,
                .dalpha = &p->dalpha, .dgamma = &p->dweight, .dbeta = &p->dbias);
}

typedef struct norm {
    tg_status (*forward)(tg_ctx *ctx, const tg_tensor *x, const tg_tensor *weight, parts *p,
                         tg_tensor *y);
    tg_status (*backward)(tg_ctx *ctx, const tg_tensor *dy, const tg_tensor *x,
                          const tg_tensor *weight, parts *p, tg_tensor *dx);
} norm;

static const norm of_layernorm = {layer_norm, layer_norm_back}, of_dyt = {dyt, dyt_back};

/* ---- in the place of RMSNorm and SwiGLU ---- */

/* to = a + b */
static void add(const tg_tensor *to, const tg_tensor *a, const tg_tensor *b)
{
    for (int64_t i = 0; i < tg_numel(to); i++)
        put(to, i, get(a, i) + get(b, i));
}

static tg_status forward(tg_ctx *ctx, const norm *n, const tg_rms_norm_forward_args *a)
{
    parts p;
    TRY(take_parts(ctx, a->x, a->weight, &p));
    return n->forward(ctx, a->x, a->weight, &p, a->y);
}

static tg_status add_forward(tg_ctx *ctx, const norm *n,
                             const tg_fused_add_rms_norm_forward_args *a)
{
    parts p;
    add(a->s, a->x, a->residual);
    TRY(take_parts(ctx, a->s, a->weight, &p));
    return n->forward(ctx, a->s, a->weight, &p, a->y);
}

static tg_status add_backward(tg_ctx *ctx, const norm *n,
                              const tg_fused_add_rms_norm_backward_args *a)
{
    parts p;
    TRY(take_parts(ctx, a->s, a->weight, &p));
    TRY(n->backward(ctx, a->dy, a->s, a->weight, &p, a->dx));
    if (a->ds)
        add(a->dx, a->dx, a->ds);
    for (int64_t i = 0; i < tg_numel(a->dweight); i++)
        put(a->dweight, i,
            (a->accumulate ? get(a->dweight, i) : 0) + get(&p.dweight, i) + get(&p.dbias, i) +
                (i == 0 ? get(&p.dalpha, 0) / 2 : 0));
    return TG_OK;
}

static tg_status gate(tg_ctx *ctx, const tg_swiglu_forward_args *a)
{
    return CALL(ctx, geglu_forward, .gate = a->gate, .up = a->up, .y = a->y);
}

static tg_status gate_back(tg_ctx *ctx, const tg_swiglu_backward_args *a)
{
    return CALL(ctx, geglu_backward, .dy = a->dy, .gate = a->gate, .up = a->up, .dgate = a->dgate,
                .dup = a->dup);
}

/* ---- the backends ---- */

static tg_status open_norms(const tg_host *given)
{
    host = given;
    return TG_OK;
}

/* A trainer that keeps all activations calls these and no others: rms_norm forward once, and then
 * sums and norms in one. */
#define BACKEND(name)                                                                             \
    static tg_status name##_forward(tg_ctx *ctx, const tg_rms_norm_forward_args *a)               \
    {                                                                                             \
        return forward(ctx, &of_##name, a);                                                       \
    }                                                                                             \
    static tg_status name##_add_forward(tg_ctx *ctx, const tg_fused_add_rms_norm_forward_args *a) \
    {                                                                                             \
        return add_forward(ctx, &of_##name, a);                                                   \
    }                                                                                             \
    static tg_status name##_add_backward(tg_ctx *ctx,                                             \
                                         const tg_fused_add_rms_norm_backward_args *a)            \
    {                                                                                             \
        return add_backward(ctx, &of_##name, a);                                                  \
    }                                                                                             \
    static const tg_impl name##_impls[] = {                                                       \
        TG_IMPL(rms_norm_forward, "", 0, TG_TAKES_F32 | TG_TAKES_BF16, NULL, name##_forward),     \
        TG_IMPL(fused_add_rms_norm_forward, "", 0, TG_TAKES_F32 | TG_TAKES_BF16, NULL,            \
                name##_add_forward),                                                              \
        TG_IMPL(fused_add_rms_norm_backward, "", 0, TG_TAKES_F32 | TG_TAKES_BF16, NULL,           \
                name##_add_backward),                                                             \
        TG_IMPL(swiglu_forward, "", 0, TG_TAKES_F32 | TG_TAKES_BF16, NULL, gate),                 \
        TG_IMPL(swiglu_backward, "", 0, TG_TAKES_F32 | TG_TAKES_BF16, NULL, gate_back),           \
        TG_IMPLS_END,                                                                             \
    };                                                                                            \
    static const tg_backend name##_backend = {.abi = TG_ABI,                                      \
                                              .size = sizeof(tg_backend),                         \
                                              .vendor = #name,                                    \
                                              .device = "cpu",                                    \
                                              .device_type = TG_DEVICE_CPU,                       \
                                              .open = open_norms,                                 \
                                              .impls = name##_impls,                              \
                                              .only_named = 1};

BACKEND(layernorm)
BACKEND(dyt)

tg_status norms_register(void)
{
    TRY(tg_backend_register(&layernorm_backend));
    return tg_backend_register(&dyt_backend);
}
