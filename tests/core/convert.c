/* What a caller may give and what implementations see of it: types and strides by the columns of
 * ops.def, whichever runs; indices of both widths are checked in every call; memory that is short
 * leaves outputs alone. */
#include <math.h>
#include <tigon/backend.h>

#include "../common/test.h"

enum { R = 4, V = 7, B = 2, L = 3 };

/* ---- implementations that look at what they get, and leave the call to others ---- */

static int seen_wrong, seen;

static void expect_seen(const tg_tensor *t, int type)
{
    seen++;
    seen_wrong += tg_type_of(t) != type;
    int64_t compact = 1;
    for (int i = t->ndim - 1; i >= 0; i--) {
        seen_wrong += t->strides && t->shape[i] > 1 && t->strides[i] != compact;
        compact *= t->shape[i];
    }
}

static tg_status spy_cross_entropy(tg_ctx *ctx, const tg_cross_entropy_forward_args *args)
{
    (void)ctx;
    expect_seen(args->target, TG_I64);
    expect_seen(args->class_weight, TG_F32);
    return TG_EUNSUPPORTED;
}

static tg_status spy_log_softmax(tg_ctx *ctx, const tg_selective_log_softmax_forward_args *args)
{
    (void)ctx;
    expect_seen(args->mask, TG_I64);
    return TG_EUNSUPPORTED;
}

static const tg_impl impls[] = {
    TG_IMPL(cross_entropy_forward, "", 0, TG_TAKES_FLOATS, NULL, spy_cross_entropy),
    TG_IMPL(selective_log_softmax_forward, "", 0, TG_TAKES_FLOATS, NULL, spy_log_softmax),
    TG_IMPLS_END};
static const tg_backend spy = {TG_ABI, sizeof(tg_backend), "spy",
                               "cpu",  TG_DEVICE_CPU,      .impls = impls};

/* ---- cross_entropy: narrow targets and weights ---- */

typedef struct loss {
    float logits[R * V], value;
    int64_t shape[2], rows[1], classes[1], one[1], strides[1];
    tg_tensor tlogits, target, weight, out;
    tg_cross_entropy_forward_args args;
} loss;

static void set_loss(loss *c, const void *target, tg_type type, const void *weight,
                     tg_type weight_type)
{
    *c = (loss){.shape = {R, V}, .rows = {R}, .classes = {V}, .one = {1}, .value = 7};
    for (int i = 0; i < R * V; i++)
        c->logits[i] = (float)(i * 5 % 11) / 3;
    c->tlogits = tg_tensor_of(c->logits, TG_F32, 2, c->shape);
    c->target = tg_tensor_of(target, type, 1, c->rows);
    c->weight = tg_tensor_of(weight, weight_type, 1, c->classes);
    c->out = tg_tensor_of(&c->value, TG_F32, 1, c->one);
    c->args = (tg_cross_entropy_forward_args){
        .logits = &c->tlogits, .target = &c->target, .class_weight = &c->weight, .loss = &c->out};
}

static const int64_t wide_target[] = {3, 0, -100, 6};
static const float weights[V] = {1, 2, 0.5f, 4, 1, 1, 0.25f};
static const uint16_t bf16_weights[V] = {0x3f80, 0x4000, 0x3f00, 0x4080, 0x3f80, 0x3f80, 0x3e80};

static void narrow_targets(tg_ctx *ctx)
{
    loss a, b;
    int32_t spread[2 * R], target[R] = {3, 0, -100, 6};
    for (int i = 0; i < 2 * R; i++)
        spread[i] = i % 2 ? 99 : target[i / 2];
    set_loss(&a, wide_target, TG_I64, weights, TG_F32);
    EXPECT(tg_cross_entropy_forward(ctx, &a.args) == TG_OK, "%s", tg_last_error());
    set_loss(&b, target, TG_I32, bf16_weights, TG_BF16);
    EXPECT(tg_cross_entropy_forward(ctx, &b.args) == TG_OK, "%s", tg_last_error());
    EXPECT(a.value == b.value, "%g, not %g", (double)b.value, (double)a.value);
    b.target.data = spread; /* every other element */
    b.target.strides = b.strides;
    b.strides[0] = 2;
    b.value = 7;
    EXPECT(tg_cross_entropy_forward(ctx, &b.args) == TG_OK && a.value == b.value, "%g: %s",
           (double)b.value, tg_last_error());
    spread[4] = 7; /* target[2] */
    b.value = 7;
    EXPECT(tg_cross_entropy_forward(ctx, &b.args) == TG_EINVAL &&
               strstr(tg_last_error(), "target[2] is 7,") && b.value == 7,
           "%s", tg_last_error());
}

/* Every place of every number of targets up to three vectors of sixteen, in a
 * form that is known. */
static void every_narrow_index(tg_ctx *ctx)
{
    enum { TARGETS = 50 };
    static float logits[TARGETS * V], value;
    static const int32_t values[] = {-1, V, -100, INT32_MIN, INT32_MAX, V - 1};
    int32_t target[TARGETS] = {0};
    const int64_t one = 1;
    tg_tensor out = tg_tensor_of(&value, TG_F32, 1, &one);
    for (int n = 1; n <= TARGETS; n++) {
        const int64_t shape[] = {n, V};
        const tg_tensor x = tg_tensor_of(logits, TG_F32, 2, shape),
                        y = tg_tensor_of(target, TG_I32, 1, shape);
        const tg_cross_entropy_forward_args args = {.logits = &x, .target = &y, .loss = &out};
        EXPECT(tg_cross_entropy_forward(ctx, &args) == TG_OK, "%s", tg_last_error());
        for (int i = 0; i < n * 6; i++) {
            const int32_t index = values[i % 6];
            const int valid = index == -100 || index == V - 1;
            char expected[96];
            snprintf(expected, sizeof expected, "target[%d] is %d,", i / 6, index);
            target[i / 6] = index;
            const tg_status status = tg_cross_entropy_forward(ctx, &args);
            EXPECT(status == (valid ? TG_OK : TG_EINVAL), "%d targets, %s: %s", n, expected,
                   tg_status_name(status));
            EXPECT(valid || strstr(tg_last_error(), expected), "%s, not %s", tg_last_error(),
                   expected);
            target[i / 6] = 0;
        }
    }
}

/* ---- masks ---- */

static void masks(tg_ctx *ctx)
{
    static const uint8_t bytes[] = {1, 0, 1, 255, 1, 0};
    static const int32_t narrow[] = {1, 0, -5, 1, 1 << 30, 0};
    static const int64_t wide[] = {1, 0, INT64_MIN, 1, 1, 0};
    static const float f32[] = {0.5f, -0.0f, NAN, 1, INFINITY, 0};
    static const uint16_t bf16[] = {0x3f00, 0x8000, 0x7fc0, 1, 0x3f80, 0},
                          f16[] = {0x3800, 0x8000, 0x7e00, 1, 0x3c00, 0};
    static const struct {
        const void *data;
        tg_type type;
    } all[] = {{wide, TG_I64}, {bytes, TG_BOOL}, {bytes, TG_U8}, {narrow, TG_I32},
               {f32, TG_F32},  {bf16, TG_BF16},  {f16, TG_F16}};
    static float logits[B * L * V];
    static const int64_t target[B * L] = {1, -9, 3, 4, 5, -9}; /* out of range where masked */
    const int64_t shape[] = {B, L, V};
    float expected[B * L], logp[B * L];
    for (int i = 0; i < B * L * V; i++)
        logits[i] = (float)(i * 7 % 13);
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        const tg_tensor x = tg_tensor_of(logits, TG_F32, 3, shape),
                        y = tg_tensor_of(target, TG_I64, 2, shape),
                        mask = tg_tensor_of(all[k].data, all[k].type, 2, shape);
        tg_tensor out = tg_tensor_of(k ? logp : expected, TG_F32, 2, shape);
        const tg_selective_log_softmax_forward_args args = {
            .logits = &x, .target = &y, .mask = &mask, .logp = &out, .temperature = 1};
        for (int again = 0; again < 2; again++)
            EXPECT(tg_selective_log_softmax_forward(ctx, &args) == TG_OK, "mask of %s: %s",
                   tg_type_name(all[k].type), tg_last_error());
        EXPECT(k == 0 || memcmp(logp, expected, sizeof logp) == 0, "mask of %s",
               tg_type_name(all[k].type));
    }
    EXPECT(expected[0] != 0 && expected[1] == 0 && expected[3] != 0, "nothing is masked");
}

/* ---- weights and their gradients ---- */

static float from_bf16(uint16_t h)
{
    const uint32_t bits = (uint32_t)h << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint16_t to_bf16(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

typedef struct norm {
    float dy[R * V], x[R * V], dx[R * V], rstd[R], wide[V], wide_gradient[V];
    uint16_t narrow[V], narrow_gradient[V];
    int64_t shape[2], columns[1], rows[1];
    tg_tensor tdy, tx, tdx, trstd, weight, dweight;
    tg_rms_norm_backward_args args;
} norm;

/* The weight and its gradient in f32 or bf16, of the same values. */
static void set_norm(norm *n, tg_type type, int accumulate)
{
    *n = (norm){.shape = {R, V}, .columns = {V}, .rows = {R}};
    for (int i = 0; i < R * V; i++) {
        n->dy[i] = (float)(i * 3 % 8) / 7;
        n->x[i] = (float)(i * 5 % 9) / 5 - 1;
    }
    for (int i = 0; i < V; i++) {
        n->narrow[i] = bf16_weights[i];
        n->wide[i] = from_bf16(n->narrow[i]);
        n->narrow_gradient[i] = to_bf16((float)(i + 1) / 16);
        n->wide_gradient[i] = from_bf16(n->narrow_gradient[i]);
    }
    for (int i = 0; i < R; i++)
        n->rstd[i] = 1 + (float)i / 3;
    const int wide = type == TG_F32;
    n->tdy = tg_tensor_of(n->dy, TG_F32, 2, n->shape);
    n->tx = tg_tensor_of(n->x, TG_F32, 2, n->shape);
    n->tdx = tg_tensor_of(n->dx, TG_F32, 2, n->shape);
    n->trstd = tg_tensor_of(n->rstd, TG_F32, 1, n->rows);
    n->weight = tg_tensor_of(wide ? (void *)n->wide : n->narrow, type, 1, n->columns);
    n->dweight =
        tg_tensor_of(wide ? (void *)n->wide_gradient : n->narrow_gradient, type, 1, n->columns);
    n->args = (tg_rms_norm_backward_args){.dy = &n->tdy,
                                          .x = &n->tx,
                                          .weight = &n->weight,
                                          .rstd = &n->trstd,
                                          .dx = &n->tdx,
                                          .dweight = &n->dweight,
                                          .accumulate = accumulate};
}

static void rounded_once(tg_ctx *ctx)
{
    for (int accumulate = 0; accumulate < 2; accumulate++) {
        norm wide, narrow;
        set_norm(&wide, TG_F32, accumulate);
        set_norm(&narrow, TG_BF16, accumulate);
        EXPECT(tg_rms_norm_backward(ctx, &wide.args) == TG_OK, "%s", tg_last_error());
        EXPECT(tg_rms_norm_backward(ctx, &narrow.args) == TG_OK, "%s", tg_last_error());
        EXPECT(memcmp(wide.dx, narrow.dx, sizeof wide.dx) == 0, "dx differs");
        for (int i = 0; i < V; i++)
            EXPECT(narrow.narrow_gradient[i] == to_bf16(wide.wide_gradient[i]),
                   "dweight[%d] is %g, expected %g rounded", i,
                   (double)from_bf16(narrow.narrow_gradient[i]), (double)wide.wide_gradient[i]);
    }
}

static void *failing_alloc(void *user, size_t bytes)
{
    long *left = user;
    return (*left)-- > 0 ? aligned_alloc(64, (bytes + 63) / 64 * 64) : NULL;
}

static void failing_free(void *user, void *p)
{
    (void)user;
    free(p);
}

/* The n-th allocation fails, for every n: nothing is written. */
static void short_memory(void)
{
    int failed = 0;
    for (long n = 0; n < 20; n++) {
        long left = n;
        tg_ctx *ctx = new_context();
        tg_ctx_set_allocator(ctx, failing_alloc, failing_free, &left);
        norm before, after;
        set_norm(&before, TG_BF16, 1);
        set_norm(&after, TG_BF16, 1);
        const tg_status status = tg_rms_norm_backward(ctx, &after.args);
        failed += status == TG_ENOMEM;
        EXPECT(status == TG_OK || status == TG_ENOMEM, "%s", tg_last_error());
        EXPECT(status == TG_OK || (memcmp(before.dx, after.dx, sizeof before.dx) == 0 &&
                                   memcmp(before.narrow_gradient, after.narrow_gradient,
                                          sizeof before.narrow_gradient) == 0),
               "allocation %ld failed, yet outputs are written", n);
        tg_ctx_destroy(ctx);
    }
    EXPECT(failed >= 2, "%d allocations failed: too few to mean anything", failed);
}

/* ---- strides: a gradient that is one number, as sum().backward() gives it; rows
 * of two strides ---- */

static void strides(tg_ctx *ctx)
{
    norm plain, one;
    int64_t none[] = {0, 0};
    set_norm(&plain, TG_F32, 0);
    set_norm(&one, TG_F32, 0);
    for (int i = 0; i < R * V; i++)
        plain.dy[i] = 0.75f;
    one.dy[0] = 0.75f;
    one.tdy.strides = none;
    EXPECT(tg_rms_norm_backward(ctx, &plain.args) == TG_OK, "%s", tg_last_error());
    EXPECT(tg_rms_norm_backward(ctx, &one.args) == TG_OK, "%s", tg_last_error());
    EXPECT(memcmp(plain.dx, one.dx, sizeof one.dx) == 0 &&
               memcmp(plain.wide_gradient, one.wide_gradient, sizeof one.wide_gradient) == 0,
           "an expanded dy gives another gradient");
    one.tdx.strides = none;
    EXPECT(tg_rms_norm_backward(ctx, &one.args) == TG_EINVAL, "an expanded output is taken");
}

int main(void)
{
    tg_ctx *ctx = new_context();
    EXPECT(tg_backend_register(&spy) == TG_OK, "%s", tg_last_error());
    narrow_targets(ctx);
    masks(ctx);
    EXPECT(seen > 10 && seen_wrong == 0, "of %d tensors implementations saw %d otherwise", seen,
           seen_wrong);
    tg_ctx_set_impl(ctx, "cpu,ref");
    every_narrow_index(ctx);
    rounded_once(ctx);
    strides(ctx);
    tg_ctx_destroy(ctx);
    short_memory();
    return report();
}
