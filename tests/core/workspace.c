/* The workspace: its peak, what is kept and given back, allocators of the caller. */
#include "../common/test.h"

static long live, calls;

static void *counting_alloc(void *user, size_t bytes)
{
    (void)user;
    live++;
    calls++;
    return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static void counting_free(void *user, void *p)
{
    (void)user;
    live--;
    free(p);
}

/* Rows of 2^21 elements, and a column of as many: no row operator's scratch grows with them. Equal elements leave
 * sparsemax all of them to look through; the loss's gradient reads them twice. */
enum { LONG = 1 << 21 };

static size_t peak_of(const char *op, tg_tensor *in, tg_tensor *out, double softcap)
{
    static int64_t target;
    static float lse, loss;
    int64_t one = 1;
    const tg_tensor ttarget = tg_tensor_of(&target, TG_I64, 1, &one);
    tg_tensor tlse = tg_tensor_of(&lse, TG_F32, 1, &one),
              tloss = tg_tensor_of(&loss, TG_F32, 1, &one);
    tg_ctx *ctx = new_context();
    tg_ctx_set_threads(ctx, 1);
    EXPECT(tg_ctx_set_impl(ctx, "cpu") == TG_OK, "%s", tg_last_error());
    tg_status status = TG_OK;
    if (!strcmp(op, "softmax_forward"))
        status = tg_softmax_forward(ctx, &(tg_softmax_forward_args){.x = in, .y = out});
    else if (!strcmp(op, "sparsemax_forward"))
        status = tg_sparsemax_forward(
            ctx,
            &(tg_sparsemax_forward_args){.x = in, .y = out, .dim = in->shape[0] > 1 ? -2 : -1});
    else
        status =
            tg_cross_entropy_forward(ctx, &(tg_cross_entropy_forward_args){.logits = in,
                                                                           .target = &ttarget,
                                                                           .loss = &tloss,
                                                                           .lse = &tlse,
                                                                           .dlogits = out,
                                                                           .softcap = softcap});
    EXPECT(status == TG_OK, "%s: %s", op, tg_last_error());
    const size_t peak = tg_ctx_workspace_peak(ctx);
    if (!strcmp(op, "cross_entropy_forward")) {
        tg_ctx_workspace_reset_peak(ctx);
        status =
            tg_cross_entropy_backward(ctx, &(tg_cross_entropy_backward_args){.logits = in,
                                                                             .target = &ttarget,
                                                                             .lse = &tlse,
                                                                             .dlogits = out,
                                                                             .softcap = softcap});
        EXPECT(status == TG_OK && tg_ctx_workspace_peak(ctx) <= 100 << 10, "%zu bytes backward",
               tg_ctx_workspace_peak(ctx));
    }
    tg_ctx_destroy(ctx);
    return peak;
}

static void check_long_rows(void)
{
    int64_t wide[] = {1, LONG}, high[] = {LONG / 2, 2};
    uint16_t *x = calloc(LONG, sizeof *x), *y = calloc(LONG, sizeof *y);
    tg_tensor tx = tg_tensor_of(x, TG_BF16, 2, wide), ty = tg_tensor_of(y, TG_BF16, 2, wide);
    tg_tensor columns = tg_tensor_of(x, TG_BF16, 2, high), out = tg_tensor_of(y, TG_BF16, 2, high);
    const struct {
        const char *op;
        double softcap;
        tg_tensor *in, *out;
    } tests[] = {{"softmax_forward", 0, &tx, &ty},
                 {"sparsemax_forward", 0, &tx, &ty},
                 {"sparsemax_forward", 0, &columns, &out},
                 {"cross_entropy_forward", 0, &tx, &ty},
                 {"cross_entropy_forward", 5, &tx, &ty}};
    for (size_t i = 0; x && y && i < sizeof tests / sizeof *tests; i++) {
        const size_t peak = peak_of(tests[i].op, tests[i].in, tests[i].out, tests[i].softcap);
        EXPECT(peak <= (size_t)(tests[i].softcap > 0 ? 9 : 5) << 18, "%s %g: %zu bytes",
               tests[i].op, tests[i].softcap, peak);
    }
    free(x);
    free(y);
}

int main(void)
{
    enum { R = 8, N = 512 };
    static float x[R * N], weight[N], y[R * N];
    int64_t shape[] = {R, N}, columns = N;
    const tg_tensor tx = tg_tensor_of(x, TG_F32, 2, shape),
                    tw = tg_tensor_of(weight, TG_F32, 1, &columns);
    tg_tensor ty = tg_tensor_of(y, TG_F32, 2, shape);
    const tg_rms_norm_forward_args args = {.x = &tx, .weight = &tw, .y = &ty};
    tg_ctx *ctx = new_context();
    EXPECT(tg_ctx_set_allocator(ctx, counting_alloc, NULL, NULL) == TG_EINVAL,
           "one function alone");
    EXPECT(tg_ctx_set_allocator(ctx, counting_alloc, counting_free, NULL) == TG_OK, "%s",
           tg_last_error());
    tg_ctx_set_impl(ctx, "unfused");
    EXPECT(tg_rms_norm_forward(ctx, &args) == TG_OK, "%s", tg_last_error());
    const long first = calls;
    EXPECT(first > 0 && live > 0, "%ld calls, %ld live", calls, live);
    EXPECT(tg_ctx_workspace_peak(ctx) >= sizeof x, "%zu bytes", tg_ctx_workspace_peak(ctx));
    tg_rms_norm_forward(ctx, &args);
    EXPECT(calls == first, "kept blocks are used again: %ld calls, then %ld", first, calls);
    tg_ctx_workspace_reset_peak(ctx);
    EXPECT(tg_ctx_workspace_peak(ctx) == 0, "%zu bytes in use between calls",
           tg_ctx_workspace_peak(ctx));
    tg_ctx_workspace_trim(ctx);
    EXPECT(live == 0, "%ld blocks after trim", live);
    tg_rms_norm_forward(ctx, &args);
    tg_ctx_destroy(ctx);
    EXPECT(live == 0, "%ld blocks after destroy", live);
    check_long_rows();
    return report();
}
