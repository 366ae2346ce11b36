/* The workspace: its peak, what is kept and given back, allocators of the caller. */
#include "../common/test.h"

static long live, calls;

static long allowed = -1; /* calls until memory is out; never below 0 */

static void *counting_alloc(void *user, size_t bytes)
{
    (void)user;
    if (allowed >= 0 && allowed-- == 0)
        return allowed = 0, NULL;
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

/* Rows of 2^21 elements, and a column of as many: no row operator's scratch grows with them. Equal
 * elements leave sparsemax all of them to look through; the loss's gradient reads them twice. */
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

/* ---- what a call takes it gives back, when it fails as well ---- */

enum { ROWS = 6, COLUMNS = 40 };

typedef tg_status call_fn(tg_ctx *ctx);

static float numbers[5][2 * ROWS * COLUMNS];
static uint16_t narrow[2][COLUMNS];
static int64_t rows_of[] = {ROWS, COLUMNS}, columns_of[] = {COLUMNS}, one_of[] = {1};
static int64_t apart[] = {2 * COLUMNS, 1}, planes[] = {2, 3, COLUMNS},
               turned[] = {COLUMNS, 2 * COLUMNS, 1};

/* The weight and its gradient are converted, there and back. */
static tg_status narrow_weight(tg_ctx *ctx)
{
    const tg_tensor dy = tg_tensor_of(numbers[0], TG_F32, 2, rows_of),
                    x = tg_tensor_of(numbers[1], TG_F32, 2, rows_of),
                    rstd = tg_tensor_of(numbers[2], TG_F32, 1, rows_of),
                    weight = tg_tensor_of(narrow[0], TG_BF16, 1, columns_of);
    tg_tensor dx = tg_tensor_of(numbers[3], TG_F32, 2, rows_of),
              dweight = tg_tensor_of(narrow[1], TG_BF16, 1, columns_of);
    return tg_rms_norm_backward(ctx, &(tg_rms_norm_backward_args){.dy = &dy,
                                                                  .x = &x,
                                                                  .weight = &weight,
                                                                  .rstd = &rstd,
                                                                  .dx = &dx,
                                                                  .dweight = &dweight,
                                                                  .accumulate = 1});
}

/* Planes in another order: of rows that do not collapse. */
static tg_status turned_planes(tg_ctx *ctx)
{
    tg_tensor x = tg_tensor_of(numbers[0], TG_F32, 3, planes),
              y = tg_tensor_of(numbers[1], TG_F32, 3, planes);
    x.strides = y.strides = turned;
    return tg_softmax_forward(ctx, &(tg_softmax_forward_args){.x = &x, .y = &y});
}

/* Calls within a call. */
static tg_status composite(tg_ctx *ctx)
{
    static int64_t target[ROWS], ignored[ROWS] = {ROWS};
    const tg_tensor x = tg_tensor_of(numbers[0], TG_F32, 2, rows_of),
                    weight = tg_tensor_of(numbers[1], TG_F32, 2, rows_of),
                    labels = tg_tensor_of(target, TG_I64, 1, ignored);
    tg_tensor loss = tg_tensor_of(numbers[2], TG_F32, 1, one_of),
              dx = tg_tensor_of(numbers[3], TG_F32, 2, rows_of),
              dweight = tg_tensor_of(numbers[4], TG_F32, 2, rows_of);
    return tg_fused_linear_cross_entropy_forward(
        ctx, &(tg_fused_linear_cross_entropy_forward_args){.x = &x,
                                                           .weight = &weight,
                                                           .target = &labels,
                                                           .loss = &loss,
                                                           .dx = &dx,
                                                           .dweight = &dweight});
}

static tg_status plain(tg_ctx *ctx)
{
    tg_tensor x = tg_tensor_of(numbers[0], TG_F32, 2, rows_of),
              y = tg_tensor_of(numbers[1], TG_F32, 2, rows_of);
    x.strides = apart;
    return tg_rms_norm_forward(ctx, &(tg_rms_norm_forward_args){.x = &x, .y = &y});
}

static void nothing_stays(const char *impl, const char *name, call_fn *call)
{
    tg_ctx *ctx = new_context();
    tg_ctx_set_allocator(ctx, counting_alloc, counting_free, NULL);
    EXPECT(tg_ctx_set_impl(ctx, impl) == TG_OK, "%s", tg_last_error());
    tg_status status = TG_ENOMEM;
    for (long n = 0; n < 60 && status == TG_ENOMEM; n++) {
        tg_ctx_workspace_trim(ctx);
        allowed = n;
        status = call(ctx);
        allowed = -1;
        EXPECT(status == TG_OK || status == TG_ENOMEM, "%s: %s", name, tg_last_error());
        tg_ctx_workspace_reset_peak(ctx);
        EXPECT(tg_ctx_workspace_peak(ctx) == 0,
               "%s by %s, of which allocation %ld fails (%s): %zu bytes stay in use", name, impl, n,
               tg_status_name(status), tg_ctx_workspace_peak(ctx));
    }
    EXPECT(status == TG_OK, "%s: memory is out after 60 allocations", name);
    call(ctx); /* what was short may have left blocks of other sizes */
    const long before = calls;
    for (int again = 0; again < 4; again++)
        EXPECT(call(ctx) == TG_OK, "%s", tg_last_error());
    EXPECT(calls == before, "%s by %s: four calls more take %ld blocks more", name, impl,
           calls - before);
    tg_ctx_destroy(ctx);
    EXPECT(live == 0, "%s: %ld blocks after destroy", name, live);
}

static void nothing_of_any_call_stays(void)
{
    static const char *const impls[] = {"cpu", "ref,cpu", "unfused,cpu"};
    for (int i = 0; i < ROWS * COLUMNS; i++)
        for (int k = 0; k < 5; k++)
            numbers[k][i] = 1 + (float)(i % 5);
    for (int i = 0; i < 3; i++) {
        nothing_stays(impls[i], "a narrow weight", narrow_weight);
        nothing_stays(impls[i], "turned planes", turned_planes);
        nothing_stays(impls[i], "a composite", composite);
        nothing_stays(impls[i], "a plain call", plain);
    }
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
    nothing_of_any_call_stays();
    check_long_rows();
    return report();
}
