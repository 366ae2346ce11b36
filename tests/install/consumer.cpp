// A program of another project, in C++: calls one operator and says which implementation ran.
#include <cmath>
#include <cstdio>
#include <tigon/tigon.h>

int main()
{
    float x[3] = {1, 2, 2}, y[3];
    const int64_t shape[1] = {3};
    const tg_tensor tx = tg_tensor_of(x, TG_F32, 1, shape);
    tg_tensor ty = tg_tensor_of(y, TG_F32, 1, shape);
    tg_rms_norm_forward_args args = {};
    args.x = &tx;
    args.y = &ty;
    tg_ctx *ctx;
    if (tg_ctx_create(&ctx) || tg_rms_norm_forward(ctx, &args)) {
        std::fprintf(stderr, "%s\n", tg_last_error());
        return 1;
    }
    std::printf("tigon %s: %s: %g %g %g\n", tg_version(), tg_ctx_last_impl(ctx), y[0], y[1], y[2]);
    const bool right = std::fabs(y[0] - 0.57735) < 1e-4 && std::fabs(y[2] - 1.1547) < 1e-4;
    tg_ctx_destroy(ctx);
    return right ? 0 : 1;
}
