/* Options: what zero, TG_ZERO and TG_VALUE() in a call are to the implementation that runs it, by
 * every way into the library, and what the schema says of them. */
#include <math.h>
#include <tigon/backend.h>

#include "../common/test.h"

static tg_adamw_args seen;
static tg_sparsemax_forward_args seen_sparsemax;
static tg_flash_attention_forward_args seen_attention;
static int
    asked; /* implementations that were asked whether they take a call saw what they would get */
static const tg_host *host;

static tg_status open_backend(const tg_host *services)
{
    host = services;
    return TG_OK;
}

static int accepts(const tg_adamw_args *args)
{
    asked = args->beta2 == 0.999;
    return 1;
}

static tg_status adamw(tg_ctx *ctx, const tg_adamw_args *args)
{
    (void)ctx;
    seen = *args;
    return TG_OK;
}

static tg_status sparsemax(tg_ctx *ctx, const tg_sparsemax_forward_args *args)
{
    (void)ctx;
    seen_sparsemax = *args;
    return TG_OK;
}

static tg_status attention(tg_ctx *ctx, const tg_flash_attention_forward_args *args)
{
    (void)ctx;
    seen_attention = *args;
    return TG_OK;
}

static const tg_impl impls[] = {
    TG_IMPL(adamw, "", 0, TG_TAKES_FLOATS, accepts, adamw),
    TG_IMPL(sparsemax_forward, "", 0, TG_TAKES_FLOATS, NULL, sparsemax),
    TG_IMPL(flash_attention_forward, "", 0, TG_TAKES_FLOATS, NULL, attention), TG_IMPLS_END};
static const tg_backend observer = {TG_ABI,        sizeof observer,      "observer",    "cpu",
                                    TG_DEVICE_CPU, .open = open_backend, .impls = impls};

enum { N = 3 };
static float param[N] = {1, 2, 3}, grad[N] = {.5f, 1, 2}, m[N] = {.1f, .2f, .3f}, v[N] = {1, 1, 1};
static int64_t shape[] = {N};
static tg_tensor tensors[4];

static tg_adamw_args adamw_args(void)
{
    float *const data[] = {param, grad, m, v};
    for (int i = 0; i < 4; i++)
        tensors[i] = tg_tensor_of(data[i], TG_F32, 1, shape);
    return (tg_adamw_args){.param = &tensors[0],
                           .grad = &tensors[1],
                           .m = &tensors[2],
                           .v = &tensors[3],
                           .lr = 0.1,
                           .step = 2};
}

static void expect_seen(const char *what, double beta1, double beta2, double eps, double scale)
{
    EXPECT(seen.beta1 == beta1 && seen.beta2 == beta2 && seen.eps == eps &&
               seen.grad_scale == scale,
           "%s: the implementation saw beta1 %g, beta2 %g, eps %g, grad_scale %g, expected %g, %g, "
           "%g, %g",
           what, seen.beta1, seen.beta2, seen.eps, seen.grad_scale, beta1, beta2, eps, scale);
    EXPECT(seen.lr == 0.1 && seen.weight_decay == 0 && seen.step == 2, "%s: others", what);
    seen = (tg_adamw_args){0};
}

static void every_way_in(tg_ctx *ctx)
{
    tg_adamw_args a = adamw_args();
    const int op = tg_op_by_name("adamw"), impl = tg_find(ctx, "observer/adamw");
    EXPECT(!tg_adamw(ctx, &a), "%s", tg_last_error());
    expect_seen("defaults", 0.9, 0.999, 1e-8, 1);
    a.beta1 = TG_ZERO, a.eps = TG_VALUE(0.0), a.grad_scale = TG_VALUE(0.5),
    a.weight_decay = TG_ZERO;
    const tg_adamw_args before = a;
    for (int again = 0; again < 2; again++) {
        EXPECT(!tg_adamw(ctx, &a), "%s", tg_last_error());
        expect_seen("zeros", 0, 0.999, 0, 0.5);
    }
    EXPECT(!tg_call(ctx, op, &a), "%s", tg_last_error());
    expect_seen("tg_call", 0, 0.999, 0, 0.5);
    EXPECT(!tg_impl_run(ctx, impl, &a), "%s", tg_last_error());
    expect_seen("tg_impl_run", 0, 0.999, 0, 0.5);
    EXPECT(!host->call(ctx, "adamw", &a), "%s", tg_last_error());
    expect_seen("call of a backend", 0, 0.999, 0, 0.5);
    asked = 0;
    EXPECT(tg_impl_accepts(ctx, impl, &a) && asked, "tg_impl_accepts: options are not resolved");
    EXPECT(!tg_check(op, &a), "%s", tg_last_error());
    EXPECT(!memcmp(&a, &before, sizeof a), "the caller's arguments were written");
    a.beta1 = -0.0, a.eps = 0, a.grad_scale = -1;
    EXPECT(!tg_adamw(ctx, &a), "%s", tg_last_error());
    expect_seen("-0.0 is zero as well", 0.9, 0.999, 1e-8, -1);
    a.step = TG_ZERO;
    EXPECT(tg_adamw(ctx, &a) == TG_EINVAL && strstr(tg_last_error(), "step is 0, expected 1"), "%s",
           tg_last_error());
}

static void dimension_0(tg_ctx *ctx)
{
    int64_t sizes[] = {1, N};
    tg_tensor x = tg_tensor_of(param, TG_F32, 2, sizes), y = tg_tensor_of(v, TG_F32, 2, sizes);
    tg_sparsemax_forward_args a = {.x = &x, .y = &y};
    static const int64_t cases[][2] = {{0, -1}, {TG_ZERO, 0}, {1, 1}, {-2, -2}};
    for (int i = 0; i < 4; i++) {
        a.dim = cases[i][0];
        EXPECT(!tg_sparsemax_forward(ctx, &a) && seen_sparsemax.dim == cases[i][1],
               "dim %lld: the implementation saw %lld, expected %lld (%s)", (long long)a.dim,
               (long long)seen_sparsemax.dim, (long long)cases[i][1], tg_last_error());
    }
}

/* A default that follows from the tensors is left to the implementation; zero itself is refused. */
static void derived(tg_ctx *ctx)
{
    int64_t sizes[] = {1, 1, 1, N};
    tg_tensor q = tg_tensor_of(param, TG_F32, 4, sizes), k = tg_tensor_of(grad, TG_F32, 4, sizes);
    tg_tensor value = tg_tensor_of(m, TG_F32, 4, sizes), y = tg_tensor_of(v, TG_F32, 4, sizes);
    tg_flash_attention_forward_args a = {.q = &q, .k = &k, .v = &value, .y = &y};
    EXPECT(!tg_flash_attention_forward(ctx, &a) && seen_attention.scale == 0, "%g: %s",
           seen_attention.scale, tg_last_error());
    a.scale = TG_ZERO;
    EXPECT(tg_flash_attention_forward(ctx, &a) == TG_EINVAL &&
               strstr(tg_last_error(), "scale is TG_ZERO, expected a value, or 0 for the default: "
                                       "1 / sqrt(D)"),
           "%s", tg_last_error());
}

/* The same by implementations of this library: the first update of AdamW without momentum and
 * without eps is lr's size. */
static void adamw_of_the_library(tg_ctx *ctx, const char *impl)
{
    tg_adamw_args a = adamw_args();
    const float old[] = {1, 2, 3};
    memcpy(param, old, sizeof old);
    for (int i = 0; i < N; i++)
        m[i] = v[i] = 1e3f;
    EXPECT(!tg_ctx_set_impl(ctx, impl), "%s", tg_last_error());
    a.beta1 = a.beta2 = a.eps = TG_ZERO;
    EXPECT(!tg_adamw(ctx, &a), "%s", tg_last_error());
    for (int i = 0; i < N; i++)
        EXPECT(fabsf(param[i] - (old[i] - 0.1f)) < 1e-6f, "%s: param[%d] is %.9g, expected %.9g",
               impl, i, (double)param[i], (double)(old[i] - 0.1f));
}

static void schema(void)
{
    for (int op = 0; op < tg_op_count(); op++)
        for (int i = 0; i < tg_op_at(op)->nargs; i++) {
            const tg_arg_info *arg = &tg_op_at(op)->args[i];
            const int option = arg->kind == TG_ARG_F64 || arg->kind == TG_ARG_I64;
            EXPECT(option || (arg->value == 0 && !arg->default_text && !arg->required),
                   "%s: the tensor %s has a default", tg_op_at(op)->name, arg->name);
            EXPECT((arg->value != 0) + (arg->default_text != NULL) + arg->required <= 1,
                   "%s: %s has more than one default", tg_op_at(op)->name, arg->name);
            EXPECT(arg->kind != TG_ARG_I64 || arg->value == (double)(int64_t)arg->value,
                   "%s: the default of %s is no integer", tg_op_at(op)->name, arg->name);
        }
}

int main(void)
{
    EXPECT(!tg_backend_register(&observer), "%s", tg_last_error());
    tg_ctx *ctx = new_context();
    every_way_in(ctx);
    dimension_0(ctx);
    derived(ctx);
    static const char *const impls[] = {"cpu", "ref", "unfused"};
    for (int i = 0; i < 3; i++)
        adamw_of_the_library(ctx, impls[i]);
    schema();
    tg_ctx_destroy(ctx);
    return report();
}
