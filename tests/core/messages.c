/* What an error says: operator, argument, found, expected; and that nothing is written then. */
#include "../common/test.h"

enum { R = 4, N = 24 };

static float x[2 * R * N], y[2 * R * N], weight[N], rstd[R];
static int64_t shape[] = {R, N}, strides[] = {N, 1}, columns = N, rows = R;

typedef struct parts {
    tg_tensor x, weight, y, rstd;
    tg_rms_norm_forward_args args;
} parts;

static void fresh(parts *p)
{
    shape[0] = rows = R;
    shape[1] = columns = N;
    strides[0] = N;
    strides[1] = 1;
    p->x = tg_tensor_of(x, TG_F32, 2, shape);
    p->y = tg_tensor_of(y, TG_F32, 2, shape);
    p->weight = tg_tensor_of(weight, TG_F32, 1, &columns);
    p->rstd = tg_tensor_of(rstd, TG_F32, 1, &rows);
    p->args =
        (tg_rms_norm_forward_args){.x = &p->x, .weight = &p->weight, .y = &p->y, .rstd = &p->rstd};
}

static void refused(tg_ctx *ctx, const parts *p, const char *expected)
{
    for (int i = 0; i < 2 * R * N; i++)
        y[i] = 7.0f;
    EXPECT(tg_rms_norm_forward(ctx, &p->args) == TG_EINVAL, "expected \"%s\"", expected);
    EXPECT(strcmp(tg_last_error(), expected) == 0, "the message is\n  %s, expected\n  %s",
           tg_last_error(), expected);
    for (int i = 0; i < 2 * R * N; i++)
        EXPECT(y[i] == 7.0f, "y[%d] is written", i);
}

static void says(const char *expected)
{
    EXPECT(strcmp(tg_last_error(), expected) == 0, "the message is\n  %s, expected\n  %s",
           tg_last_error(), expected);
}

/* What belongs to a range, and what does not. */
static void bounds(tg_ctx *ctx, parts *p)
{
    tg_adamw_args a = {.param = &p->weight, .grad = &p->weight, .m = &p->weight, .v = &p->weight};
    tg_tensor grad = tg_tensor_of(x, TG_F32, 1, &columns), m = tg_tensor_of(y, TG_F32, 1, &columns);
    tg_tensor v = tg_tensor_of(y + N, TG_F32, 1, &columns);
    a.grad = &grad, a.m = &m, a.v = &v, a.step = 1;
    a.beta1 = 1;
    EXPECT(tg_adamw(ctx, &a) == TG_EINVAL, "beta1 of 1");
    says("adamw: beta1 is 1, expected at least 0 and below 1");
    a.beta1 = 0;
    a.step = 0;
    EXPECT(tg_adamw(ctx, &a) == TG_EINVAL, "step of 0");
    says("adamw: step is 0, expected 1 or more");
    a.step = 1;
    a.max_norm = 1;
    EXPECT(tg_adamw(ctx, &a) == TG_EINVAL, "a limit without the norm");
    says(
        "adamw: max_norm is 1 but grad_squares is NULL, expected the sum of all squared gradients");
    int64_t sizes[] = {1, 1, N}, token[] = {1, 1}, target[] = {0};
    tg_tensor logits = tg_tensor_of(x, TG_F32, 3, sizes),
              y1 = tg_tensor_of(target, TG_I64, 2, token);
    tg_tensor logp = tg_tensor_of(rstd, TG_F32, 2, token);
    tg_selective_log_softmax_forward_args s = {.logits = &logits, .target = &y1, .logp = &logp};
    EXPECT(tg_selective_log_softmax_forward(ctx, &s) == TG_EINVAL, "temperature of 0");
    says("selective_log_softmax_forward: temperature is 0, expected a positive number, at least "
         "1.17549e-38");
    s.temperature = 1e300;
    EXPECT(tg_selective_log_softmax_forward(ctx, &s) == TG_EINVAL, "temperature of 1e300");
}

/* The function is blamed, not the variable that does the same. */
static void setters(tg_ctx *ctx)
{
    EXPECT(tg_ctx_set_device(ctx, "tpu") == TG_ENOTFOUND, "tpu");
    says("tg_ctx_set_device: no backend serves device tpu; tigon info lists what there is");
    EXPECT(tg_ctx_set_cpu_max(ctx, "v9") == TG_EINVAL &&
               strstr(tg_last_error(), "tg_ctx_set_cpu_max: there is no level v9"),
           "%s", tg_last_error());
    EXPECT(tg_ctx_set_impl(ctx, "nobody") == TG_ENOTFOUND &&
               strstr(tg_last_error(), "tg_ctx_set_impl: there is no backend nobody"),
           "%s", tg_last_error());
    EXPECT(tg_ctx_set_op_impl(ctx, "gemm", "nobody") == TG_ENOTFOUND &&
               strstr(tg_last_error(), "tg_ctx_set_op_impl: there is no backend or implementation"),
           "%s", tg_last_error());
}

/* Types of DLPack that Tigon does not take have the names that they have elsewhere. */
static void foreign_types(tg_ctx *ctx, parts *p)
{
    static const struct {
        tg_dtype type;
        const char *name;
    } types[] = {{{0, 8, 1}, "i8"},
                 {{1, 16, 1}, "u16"},
                 {{2, 8, 1}, "f8"},
                 {{5, 64, 1}, "complex64"},
                 {{5, 32, 1}, "complex32"},
                 {{10, 8, 1}, "f8e4m3"},
                 {{17, 4, 2}, "float4_e2m1fn in vectors of 2"},
                 {{99, 8, 1}, "unknown (code 99 of DLPack, 8 bits)"}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char words[128];
        fresh(p);
        p->x.dtype = types[i].type;
        snprintf(words, sizeof words,
                 "rms_norm_forward: x is of type %s, expected f32, bf16 or f16", types[i].name);
        refused(ctx, p, words);
    }
}

static void *no_alloc(void *user, size_t bytes)
{
    (void)user, (void)bytes;
    return NULL;
}

static void no_free(void *user, void *ptr)
{
    (void)user, (void)ptr;
}

/* What a part of the library has said is quoted behind the operator's name. */
static void quoted(parts *p)
{
    static const char begin[] = "rms_norm_backward: no workspace of ",
                      end[] = " bytes, beside 0 in use";
    tg_ctx *ctx = new_context();
    tg_ctx_set_allocator(ctx, no_alloc, no_free, NULL);
    EXPECT(tg_ctx_set_impl(ctx, "cpu") == TG_OK, "%s", tg_last_error());
    tg_tensor dweight = tg_tensor_of(x + R * N, TG_F32, 1, &columns);
    const tg_rms_norm_backward_args args = {.dy = &p->x,
                                            .x = &p->x,
                                            .weight = &p->weight,
                                            .rstd = &p->rstd,
                                            .dx = &p->y,
                                            .dweight = &dweight};
    EXPECT(tg_rms_norm_backward(ctx, &args) == TG_ENOMEM, "%s", tg_last_error());
    const char *said = tg_last_error();
    const size_t first = strlen(begin), last = strlen(end), length = strlen(said);
    const int whole = length > first + last && !memcmp(said, begin, first) &&
                      !strcmp(said + length - last, end) &&
                      strspn(said + first, "0123456789") == length - first - last;
    EXPECT(whole, "the message is\n  %s, expected\n  %sso many%s", said, begin, end);
    tg_ctx_destroy(ctx);
}

int main(void)
{
    tg_ctx *ctx = new_context();
    parts p;
    int64_t other[] = {R, N - 1}, short_columns = N - 1;

    fresh(&p);
    p.args.x = NULL;
    refused(ctx, &p, "rms_norm_forward: x is NULL, expected a tensor");
    fresh(&p);
    p.x.data = NULL;
    refused(ctx, &p, "rms_norm_forward: x has 96 elements but its data is NULL");
    fresh(&p);
    p.weight.shape = &short_columns;
    refused(ctx, &p, "rms_norm_forward: weight is [23], expected [24], the last dimension of x");
    fresh(&p);
    p.y.shape = other;
    refused(ctx, &p, "rms_norm_forward: y is [4,23], expected [4,24], the shape of x");
    fresh(&p);
    p.y = tg_tensor_of(y, TG_BF16, 2, shape);
    refused(ctx, &p, "rms_norm_forward: y is of type bf16, expected f32, the type of x");
    fresh(&p);
    p.x = tg_tensor_of(x, TG_I64, 2, shape);
    refused(ctx, &p, "rms_norm_forward: x is of type i64, expected f32, bf16 or f16");
    fresh(&p);
    p.weight = tg_tensor_of(x, TG_I32, 1, &columns);
    refused(ctx, &p, "rms_norm_forward: weight is of type i32, expected f32, bf16 or f16");
    fresh(&p);
    p.weight = tg_tensor_of(x, TG_F64, 1, &columns);
    refused(ctx, &p, "rms_norm_forward: weight is of type f64, expected f32, bf16 or f16");
    fresh(&p);
    p.x.ndim = 0;
    p.y.ndim = 0;
    refused(ctx, &p, "rms_norm_forward: x has no dimensions, expected at least one");
    fresh(&p);
    p.x.ndim = 9;
    refused(ctx, &p, "rms_norm_forward: x has 9 dimensions, expected 0 to 8");
    fresh(&p);
    p.x.strides = strides;
    strides[1] = 2;
    refused(ctx, &p,
            "rms_norm_forward: x has stride 2 in its last dimension, expected 1 (contiguous)");
    fresh(&p);
    p.x.byte_offset = 2;
    refused(
        ctx, &p,
        "rms_norm_forward: x begins at an address that is no multiple of its elements' 4 bytes");
    fresh(&p);
    p.y.data = x + 1;
    refused(ctx, &p,
            "rms_norm_forward: y overlaps x, expected separate memory or the very same view of x");
    fresh(&p);
    p.rstd.data = y;
    refused(
        ctx, &p,
        "rms_norm_forward: y overlaps rstd, expected separate memory or the very same view of x");
    fresh(&p);
    p.y.strides = strides;
    strides[0] = N / 2;
    refused(ctx, &p, "rms_norm_forward: elements of y overlap each other, expected distinct ones");
    fresh(&p);
    rows = R + 1;
    refused(ctx, &p,
            "rms_norm_forward: rstd is [5], of 5 elements, expected 4, one for each row of x");
    fresh(&p);
    p.args.casting_mode = 2;
    refused(ctx, &p,
            "rms_norm_forward: casting_mode is 2, expected 0 (llama), 1 (gemma) or -1 (none)");
    fresh(&p);
    p.args.eps = -1;
    refused(ctx, &p, "rms_norm_forward: eps is -1, expected at least 0");
    fresh(&p);
    p.weight.device.device_type = TG_DEVICE_CUDA;
    refused(ctx, &p,
            "rms_norm_forward: weight lies on cuda:0, x and others on cpu:0, expected one device");
    fresh(&p);
    p.x.device = (tg_device){TG_DEVICE_CUDA, 1};
    refused(ctx, &p,
            "rms_norm_forward: x lies on cuda:1, weight and others on cpu:0, expected one device");
    fresh(&p);
    p.args.weight = NULL;
    p.args.rstd = NULL;
    p.y.device.device_type = 77;
    refused(ctx, &p,
            "rms_norm_forward: y lies on device type 77:0, x on cpu:0, expected one device");
    fresh(&p);
    p.x.dtype = (tg_dtype){0, 32, 1};
    refused(ctx, &p, "rms_norm_forward: x is of type i32, expected f32, bf16 or f16");
    fresh(&p);
    p.weight.dtype.lanes = 4;
    refused(ctx, &p,
            "rms_norm_forward: weight is of type f32 in vectors of 4, expected f32, bf16 or f16");
    foreign_types(ctx, &p);
    fresh(&p);
    p.args.eps = 1e39;
    refused(ctx, &p,
            "rms_norm_forward: eps is 1e+39, expected a number in the range of f32, "
            "-3.40282e+38 to 3.40282e+38");
    fresh(&p);
    p.args.offset = 0.0 / 0.0;
    EXPECT(tg_rms_norm_forward(ctx, &p.args) == TG_EINVAL && strstr(tg_last_error(), "offset is "),
           "%s", tg_last_error());
    fresh(&p);
    quoted(&p);
    bounds(ctx, &p);
    setters(ctx);
    EXPECT(tg_rms_norm_forward(ctx, NULL) == TG_EINVAL, "%s", tg_last_error());
    EXPECT(strcmp(tg_last_error(), "rms_norm_forward: args is NULL") == 0, "%s", tg_last_error());
    tg_ctx_destroy(ctx);
    return report();
}
