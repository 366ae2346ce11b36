/* adamw: beside a master, param is the rounding of what master has become, not of what was not yet
 * rounded to f32. The step takes each weight a little away from a tie between two numbers of bf16,
 * by less than f32 can tell. */
#include <math.h>

#include "../common/test.h"

enum { N = 64 };

static float master[N], m[N], v[N], grad[N];
static uint16_t param[N];

static uint16_t rounded(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static void check(const char *impl)
{
    int64_t n = N;
    for (int i = 0; i < N; i++) {
        master[i] =
            (i % 2 ? -1.0f : 1.0f) + (float)(2 * (i / 2) + 1) * (i % 2 ? -0x1p-8f : 0x1p-8f);
        grad[i] = i / 2 % 2 ? 1 : -1;
        m[i] = v[i] = 0;
        param[i] = 0xffff;
    }
    tg_tensor tp = tg_tensor_of(param, TG_BF16, 1, &n),
              tmaster = tg_tensor_of(master, TG_F32, 1, &n), tm = tg_tensor_of(m, TG_F32, 1, &n),
              tv = tg_tensor_of(v, TG_F32, 1, &n);
    const tg_tensor tg = tg_tensor_of(grad, TG_F32, 1, &n);
    tg_ctx *ctx = new_context();
    EXPECT(!tg_ctx_set_impl(ctx, impl), "%s", tg_last_error());
    const tg_adamw_args args = {.param = &tp,
                                .master = &tmaster,
                                .grad = &tg,
                                .m = &tm,
                                .v = &tv,
                                .lr = 0x1p-30,
                                .step = 1};
    EXPECT(!tg_adamw(ctx, &args), "%s", tg_last_error());
    for (int i = 0; i < N; i++)
        EXPECT(param[i] == rounded(master[i]), "%s: param[%d] is %04x beside a master of %a", impl,
               i, param[i], (double)master[i]);
    tg_ctx_destroy(ctx);
}

/* The norm of all gradients clips, and one that is not finite leaves everything as it is: what a
 * step with the scale that follows from it gives, and what was there before. */
static void check_norm(const char *impl, float squares, double scale)
{
    int64_t n = N, one = 1;
    float p[2][N], m2[2][N], v2[2][N], g[N];
    tg_ctx *ctx = new_context();
    EXPECT(!tg_ctx_set_impl(ctx, impl), "%s", tg_last_error());
    for (int i = 0; i < N; i++)
        g[i] = (float)(i % 7) - 3;
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < N; i++) {
            p[k][i] = m2[k][i] = (float)(i % 5) - 2;
            v2[k][i] = (float)(i % 3);
        }
        tg_tensor tp = tg_tensor_of(p[k], TG_F32, 1, &n), tm = tg_tensor_of(m2[k], TG_F32, 1, &n),
                  tv = tg_tensor_of(v2[k], TG_F32, 1, &n), tg = tg_tensor_of(g, TG_F32, 1, &n),
                  ts = tg_tensor_of(&squares, TG_F32, 1, &one);
        const tg_adamw_args args = {.param = &tp,
                                    .grad = &tg,
                                    .m = &tm,
                                    .v = &tv,
                                    .grad_squares = k ? &ts : NULL,
                                    .lr = 0.01,
                                    .grad_scale = k ? 0.5 : scale,
                                    .max_norm = k ? 3 : 0,
                                    .step = 3};
        if (k || scale != 0)
            EXPECT(!tg_adamw(ctx, &args), "%s", tg_last_error());
    }
    EXPECT(!memcmp(p[0], p[1], sizeof p[0]) && !memcmp(m2[0], m2[1], sizeof m2[0]) &&
               !memcmp(v2[0], v2[1], sizeof v2[0]),
           "%s: squares of %g are not as a scale of %g", impl, (double)squares, scale);
    tg_ctx_destroy(ctx);
}

int main(void)
{
    static const char *const impls[] = {"ref", "cpu", "unfused"};
    for (int i = 0; i < 3; i++) {
        check_norm(impls[i], 16, 0.5);     /* a norm of 2 */
        check_norm(impls[i], 576, 0.125);  /* of 12 */
        check_norm(impls[i], INFINITY, 0); /* 0: no step */
        check_norm(impls[i], NAN, 0);
    }
    check("ref");
    check("cpu");
    check("unfused");
    return report();
}
