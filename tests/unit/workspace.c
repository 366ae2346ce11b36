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
    return report();
}
