/* adamw: beside a master, param is the rounding of what master has become, not of what was not yet rounded to f32. The step
 * takes each weight a little away from a tie between two numbers of bf16, by less than f32 can tell. */
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

int main(void)
{
    check("ref");
    check("cpu");
    check("unfused");
    return report();
}
