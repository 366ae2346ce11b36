/* kl_div: probabilities of no distribution, which are below 0 or -0, are as in the definition.
 * Found in a build that traps on overflow of signed integers: the logarithm of -0 subtracted in
 * those, at the levels below AVX-512. */
#include <math.h>

#include "../common/test.h"

enum { N = 40 };

static void run(const char *impl, float loss[N], float dy[N])
{
    static const float values[] = {-0.0f, -1.0f, -1e-40f, 0.0f, 1e-40f, 0.25f, -INFINITY, 1.0f};
    float y[N], t[N];
    int64_t n = N;
    for (int i = 0; i < N; i++) {
        y[i] = -1 - (float)(i % 3);
        t[i] = values[i % (int)(sizeof values / sizeof *values)];
    }
    const tg_tensor ty = tg_tensor_of(y, TG_F32, 1, &n), tt = tg_tensor_of(t, TG_F32, 1, &n);
    tg_tensor tl = tg_tensor_of(loss, TG_F32, 1, &n), td = tg_tensor_of(dy, TG_F32, 1, &n);
    tg_ctx *ctx = new_context();
    EXPECT(!tg_ctx_set_impl(ctx, impl), "%s", tg_last_error());
    EXPECT(!tg_kl_div_forward(ctx,
                              &(tg_kl_div_forward_args){
                                  .y_pred = &ty, .y_true = &tt, .loss = &tl, .reduction = TG_NONE}),
           "%s", tg_last_error());
    EXPECT(
        !tg_kl_div_backward(
            ctx, &(tg_kl_div_backward_args){.y_true = &tt, .dy_pred = &td, .reduction = TG_NONE}),
        "%s", tg_last_error());
    tg_ctx_destroy(ctx);
}

int main(void)
{
    float loss[2][N], dy[2][N];
    run("ref", loss[0], dy[0]);
    run("cpu", loss[1], dy[1]);
    for (int i = 0; i < N; i++) {
        EXPECT(fabsf(loss[1][i] - loss[0][i]) <= 1e-5f * fabsf(loss[0][i]) ||
                   !(loss[1][i] < loss[0][i] || loss[1][i] > loss[0][i]),
               "loss[%d] is %g, expected %g", i, (double)loss[1][i], (double)loss[0][i]);
        EXPECT(dy[1][i] == dy[0][i], "dy[%d] is %g, expected %g", i, (double)dy[1][i],
               (double)dy[0][i]);
    }
    return report();
}
