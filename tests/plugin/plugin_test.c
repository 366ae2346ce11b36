/* tests/plugin/plugin_test.c - with a plug-in loaded that replaces rms_norm_forward alone, that
 * implementation runs, agrees with the default, passes on what it does not take, and every other
 * operator resolves as before.
 *
 *   plugin_test VENDOR PLUGIN
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tigon/tigon.h>

enum { R = 5, N = 33, PAD = 3, MAX_IMPLS = 256 };

static int failures;

static void expect(int ok, const char *what)
{
    if (!ok) {
        failures++;
        printf("FAILED: %s (last error: %s)\n", what, tg_last_error());
    }
}

static int begins(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

/* Runs rms_norm_forward on rows with padding between them; y and rstd are given back. */
static tg_status run(tg_ctx *ctx, float y[R][N + PAD], float rstd[R])
{
    float x[R][N + PAD], weight[N];
    for (int i = 0; i < R * (N + PAD); i++)
        (&x[0][0])[i] = (float)((i * 7919) % 101) / 50 - 1;
    for (int i = 0; i < N; i++)
        weight[i] = (float)i / N;
    int64_t shape[] = {R, N}, strides[] = {N + PAD, 1}, vector[] = {N}, rows[] = {R};
    tg_tensor tx = tg_tensor_of(x, TG_F32, 2, shape), ty = tg_tensor_of(y, TG_F32, 2, shape);
    const tg_tensor tw = tg_tensor_of(weight, TG_F32, 1, vector);
    tg_tensor tr = tg_tensor_of(rstd, TG_F32, 1, rows);
    tx.strides = ty.strides = strides;
    memset(y, 0x5a, sizeof(float[R][N + PAD]));
    return tg_rms_norm_forward(
        ctx,
        &(tg_rms_norm_forward_args){.x = &tx, .weight = &tw, .y = &ty, .rstd = &tr, .offset = 1});
}

static void compare(tg_ctx *ctx, const char *vendor_impl)
{
    float y[R][N + PAD], rstd[R], y_default[R][N + PAD], rstd_default[R];
    expect(run(ctx, y, rstd) == TG_OK, "the plug-in's implementation runs");
    expect(!strcmp(tg_ctx_last_impl(ctx), vendor_impl),
           "the plug-in's implementation is the one that ran");
    tg_ctx_set_op_impl(ctx, "rms_norm_forward", "cpu");
    expect(run(ctx, y_default, rstd_default) == TG_OK, "the default stays reachable");
    expect(begins(tg_ctx_last_impl(ctx), "cpu/"), "TIGON_IMPL_... = cpu runs the default");
    tg_ctx_set_op_impl(ctx, "rms_norm_forward", NULL);
    double error = 0;
    for (int r = 0; r < R; r++) {
        error = fmax(error, fabs(rstd[r] - rstd_default[r]));
        for (int i = 0; i < N; i++)
            error = fmax(error, fabs(y[r][i] - y_default[r][i]));
        expect(!memcmp(&y[r][N], &y_default[r][N], sizeof(float[PAD])), "padding is untouched");
    }
    expect(error < 1e-5, "the plug-in's implementation agrees with the default");
}

/* A type that the plug-in does not take goes to the default. */
static void pass_on(tg_ctx *ctx)
{
    uint16_t x[N] = {0}, y[N];
    const int64_t shape[] = {N};
    const tg_tensor tx = tg_tensor_of(x, TG_BF16, 1, shape);
    tg_tensor ty = tg_tensor_of(y, TG_BF16, 1, shape);
    const tg_rms_norm_forward_args args = {.x = &tx, .y = &ty};
    expect(tg_rms_norm_forward(ctx, &args) == TG_OK, "bf16 is passed on");
    expect(begins(tg_ctx_last_impl(ctx), "cpu/"), "bf16 runs on the default implementation");
}

/* The implementations a call of `op` tries, as one line, without those of `vendor`. */
static void resolved(tg_ctx *ctx, int op, const char *vendor, char *text, size_t size)
{
    int impls[MAX_IMPLS];
    const int n = tg_resolve(ctx, op, impls, MAX_IMPLS);
    text[0] = 0;
    for (int i = 0; i < n && i < MAX_IMPLS; i++)
        if (strcmp(tg_impl_at(impls[i])->backend, vendor)) {
            strncat(text, tg_impl_at(impls[i])->full_name, size - strlen(text) - 1);
            strncat(text, " ", size - strlen(text) - 1);
        }
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    const char *vendor = argv[1];
    char vendor_impl[128], before[64][2048], after[2048];
    snprintf(vendor_impl, sizeof vendor_impl, "%s/rms_norm_forward", vendor);

    unsetenv("TIGON_BACKEND_PATH");
    tg_ctx *ctx = NULL;
    expect(tg_ctx_create(&ctx) == TG_OK, "a context without the plug-in");
    for (int op = 0; op < tg_op_count() && op < 64; op++)
        resolved(ctx, op, vendor, before[op], sizeof before[op]);
    expect(tg_find(ctx, vendor_impl) < 0, "the implementation is not there before the plug-in is");
    tg_ctx_destroy(ctx);

    setenv("TIGON_BACKEND_PATH", argv[2], 1);
    ctx = NULL;
    expect(tg_ctx_create(&ctx) == TG_OK, "a context with the plug-in");
    if (!ctx)
        return 1;
    expect(tg_backend_load(argv[2]) == TG_OK, "loading it twice is harmless");
    expect(tg_find(ctx, vendor_impl) >= 0, "the implementation is there");
    int own = 0;
    for (int r = 0; r < tg_impl_count(); r++)
        own += !strcmp(tg_impl_at(r)->backend, vendor);
    expect(own == 1, "the plug-in has one implementation");
    for (int op = 0; op < tg_op_count() && op < 64; op++) {
        resolved(ctx, op, vendor, after, sizeof after);
        expect(!strcmp(before[op], after), tg_op_at(op)->name);
    }
    compare(ctx, vendor_impl);
    pass_on(ctx);

    /* Alone in the list, the plug-in is asked for what it does not have: an error, no fallback. */
    expect(tg_ctx_set_impl(ctx, vendor) == TG_OK, "the vendor's name is an implementation");
    float y[4] = {1, 2, 3, 4};
    const int64_t shape[] = {4};
    tg_tensor ty = tg_tensor_of(y, TG_F32, 1, shape);
    expect(tg_softmax_forward(ctx, &(tg_softmax_forward_args){.x = &ty, .y = &ty}) ==
               TG_EUNSUPPORTED,
           "an explicit list is exhaustive");
    expect(y[0] == 1 && y[3] == 4, "nothing is written by a refused call");
    tg_ctx_destroy(ctx);
    return failures != 0;
}
