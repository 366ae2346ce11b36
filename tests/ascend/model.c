/* The device npu-model from a program's side.
 *   ascend_model runs           host tensors, the model's implementation, the same numbers
 *                               as the CPU's
 *   ascend_model refused TEXT   the device cannot be chosen, and the message has this text
 *   ascend_model fails TEXT     swiglu_forward fails with TG_EDEVICE and this text */
#include <math.h>

#include "../common/test.h"

enum { R = 13, F = 777 };

static int model_times;

static void count_line(void *user, const char *line)
{
    (void)user;
    model_times += strstr(line, "model: ") && strstr(line, " us");
}

int main(int argc, char **argv)
{
    static float gate[R * F], up[R * F], y[R * F], expected[R * F];
    const char *mode = argc > 1 ? argv[1] : "", *text = argc > 2 ? argv[2] : "";
    tg_ctx *ctx = new_context();
    EXPECT(!strcmp(tg_ctx_device(ctx), "cpu"), "the model is chosen by itself: %s",
           tg_ctx_device(ctx));
    int64_t shape[] = {R, F};
    tg_tensor tgate = tg_tensor_of(gate, TG_F32, 2, shape),
              tup = tg_tensor_of(up, TG_F32, 2, shape);
    tg_tensor ty = tg_tensor_of(expected, TG_F32, 2, shape);
    const tg_swiglu_forward_args args = {.gate = &tgate, .up = &tup, .y = &ty};
    for (int i = 0; i < R * F; i++) {
        gate[i] = (float)(i % 29) - 14;
        up[i] = (float)(i % 31) / 8;
    }
    EXPECT(tg_swiglu_forward(ctx, &args) == TG_OK, "%s", tg_last_error());
    EXPECT(!strncmp(tg_ctx_last_impl(ctx), "cpu/", 4), "%s", tg_ctx_last_impl(ctx));
    const tg_status chosen = tg_ctx_set_device(ctx, "npu-model");
    if (!strcmp(mode, "refused")) {
        EXPECT(chosen != TG_OK && strstr(tg_last_error(), text), "\"%s\", expected \"%s\"",
               tg_last_error(), text);
        EXPECT(!strcmp(tg_ctx_device(ctx), "cpu"), "%s", tg_ctx_device(ctx));
        return report();
    }
    EXPECT(chosen == TG_OK, "%s", tg_last_error());
    ty.data = y;
    const tg_status status = tg_swiglu_forward(ctx, &args);
    if (!strcmp(mode, "fails")) {
        EXPECT(status == TG_EDEVICE && strstr(tg_last_error(), text), "%s: \"%s\", expected \"%s\"",
               tg_status_name(status), tg_last_error(), text);
        return report();
    }
    EXPECT(status == TG_OK, "%s", tg_last_error());
    EXPECT(!strcmp(tg_ctx_last_impl(ctx), "ascendmodel/swiglu_forward"), "%s",
           tg_ctx_last_impl(ctx));
    for (int i = 0; i < R * F; i++)
        EXPECT(fabsf(y[i] - expected[i]) <= 1e-5f * fabsf(expected[i]) + 1e-6f,
               "y[%d] is %g, not %g", i, y[i], expected[i]);
    tg_ctx_set_verbose(ctx, 1);
    tg_ctx_set_log(ctx, count_line, NULL);
    EXPECT(tg_swiglu_forward(ctx, &args) == TG_OK, "%s", tg_last_error());
    EXPECT(model_times == 1, "%d times of the model are logged, expected one", model_times);
    static double wide[R * F], wide_y[R * F];
    tg_tensor d = tg_tensor_of(wide, TG_F64, 2, shape);
    tg_tensor dy = tg_tensor_of(wide_y, TG_F64, 2, shape);
    const tg_swiglu_forward_args in_f64 = {.gate = &d, .up = &d, .y = &dy};
    EXPECT(tg_swiglu_forward(ctx, &in_f64) == TG_OK, "%s", tg_last_error());
    EXPECT(!strncmp(tg_ctx_last_impl(ctx), "ref/", 4), "f64: %s", tg_ctx_last_impl(ctx));
    tg_ctx_destroy(ctx);
    return report();
}
