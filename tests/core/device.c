/* Tensors in device memory, on the mock device: its implementation, an error that names the knob,
 * the fallback to the host.
 *   core_device MOCK.so */
#include <tigon/backend.h>

#include "../common/test.h"

enum { R = 3, N = 5 };

static int said;

static void count_line(void *user, const char *text)
{
    (void)user;
    said += strstr(text, "rms_norm_forward has no implementation on npu") != NULL;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 1;
    const tg_status loaded = tg_backend_load(argv[1]);
    EXPECT(loaded == TG_OK, "%s", tg_last_error());
    EXPECT(tg_backend_load(argv[1]) == TG_OK, "loading twice: %s", tg_last_error());
    tg_ctx *ctx = new_context();
    EXPECT(strcmp(tg_ctx_device(ctx), "cpu") == 0, "a device is not chosen by itself: %s",
           tg_ctx_device(ctx));
    float x[R * N], y[R * N], expected[R * N];
    int64_t shape[] = {R, N};
    for (int i = 0; i < R * N; i++)
        x[i] = (float)(i + 1);
    tg_tensor tx = tg_tensor_of(x, TG_F32, 2, shape), ty = tg_tensor_of(expected, TG_F32, 2, shape);
    tg_rms_norm_forward_args args = {.x = &tx, .y = &ty};
    EXPECT(tg_rms_norm_forward(ctx, &args) == TG_OK, "%s", tg_last_error());

    /* the same on "device memory": addresses that the host cannot touch */
    const uintptr_t moved = (uintptr_t)1 << 60;
    ty = tg_tensor_of((void *)((uintptr_t)y + moved), TG_F32, 2, shape);
    tx.data = (void *)((uintptr_t)x + moved);
    tx.device.device_type = ty.device.device_type = TG_DEVICE_ASCEND;
    EXPECT(tg_rms_norm_forward(ctx, &args) == TG_EINVAL && strstr(tg_last_error(), "npu"), "%s",
           tg_last_error());
    EXPECT(tg_ctx_set_device(ctx, "npu") == TG_OK, "%s", tg_last_error());
    EXPECT(tg_rms_norm_forward(ctx, &args) == TG_EUNSUPPORTED &&
               strstr(tg_last_error(), "TIGON_FALLBACK"),
           "%s", tg_last_error());
    const tg_softmax_forward_args soft = {.x = &tx, .y = &ty};
    EXPECT(tg_softmax_forward(ctx, &soft) == TG_OK &&
               strcmp(tg_ctx_last_impl(ctx), "mock/softmax_forward.copy") == 0,
           "%s %s", tg_ctx_last_impl(ctx), tg_last_error());
    EXPECT(memcmp(x, y, sizeof x) == 0, "the mock's implementation did not run");

    /* types and strides that core converts, it converts in host memory, or the device's backend
     * does: not this one */
    uint16_t w16[N] = {0x3f80, 0x3f80, 0x3f80, 0x3f80, 0x3f80};
    int64_t none[] = {0, 0};
    tg_tensor tw = tg_tensor_of((void *)((uintptr_t)w16 + moved), TG_BF16, 1, &shape[1]);
    tw.device.device_type = TG_DEVICE_ASCEND;
    args.weight = &tw;
    EXPECT(tg_rms_norm_forward(ctx, &args) == TG_EUNSUPPORTED &&
               strstr(tg_last_error(), "weight is of type bf16 in memory of npu, expected f32"),
           "%s", tg_last_error());
    tx.strides = none;
    EXPECT(tg_softmax_forward(ctx, &soft) == TG_EUNSUPPORTED &&
               strstr(tg_last_error(), "the strides of x are not of the layout \"rows\""),
           "%s", tg_last_error());
    tx.strides = NULL;

    tg_ctx_set_fallback(ctx, TG_FALLBACK_HOST);
    tg_ctx_set_log(ctx, count_line, NULL);
    for (int i = 0; i < 2; i++)
        EXPECT(tg_rms_norm_forward(ctx, &args) == TG_OK, "%s", tg_last_error());
    EXPECT(memcmp(y, expected, sizeof y) == 0, "the host's result differs");
    EXPECT(said == 1, "%d warnings, expected one", said);
    /* options are resolved once: what is 0 by then stays 0 */
    float w[R * N];
    memcpy(w, x, sizeof w);
    x[0] = x[1] = x[2] = x[3] = x[4] = 1e-15f;
    args.eps = TG_ZERO;
    EXPECT(tg_rms_norm_forward(ctx, &args) == TG_OK && y[0] > 0.99f, "y[0] is %g, expected 1 (%s)",
           (double)y[0], tg_last_error());
    memcpy(x, w, sizeof w);
    tg_ctx_set_strict(ctx, 1);
    EXPECT(tg_rms_norm_forward(ctx, &args) == TG_EUNSUPPORTED &&
               strstr(tg_last_error(), "TIGON_STRICT"),
           "%s", tg_last_error());
    tg_ctx_destroy(ctx);
    return report();
}
