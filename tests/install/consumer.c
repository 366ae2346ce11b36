/* A program of another project: calls one operator and says which implementation ran. */
#include <math.h>
#include <stdio.h>
#include <tigon/tigon.h>

int main(void)
{
    float x[3] = {1, 2, 2}, y[3];
    const int64_t shape[1] = {3};
    const tg_tensor tx = tg_tensor_of(x, TG_F32, 1, shape);
    tg_tensor ty = tg_tensor_of(y, TG_F32, 1, shape);
    tg_ctx *ctx;
    if (tg_ctx_create(&ctx) ||
        tg_rms_norm_forward(ctx, &(tg_rms_norm_forward_args){.x = &tx, .y = &ty})) {
        fprintf(stderr, "%s\n", tg_last_error());
        return 1;
    }
    printf("tigon %s: %s: %g %g %g\n", tg_version(), tg_ctx_last_impl(ctx), y[0], y[1], y[2]);
    const int right = fabs(y[0] - 0.57735) < 1e-4 && fabs(y[2] - 1.1547) < 1e-4;
    tg_ctx_destroy(ctx);
    return !right;
}
