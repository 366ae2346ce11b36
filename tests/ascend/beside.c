/* The loss of a chunk beside products, on the model: which kernels fused_linear_cross_entropy and
 * fused_linear_jsd launch, and that a call which fails on the way leaves no launch behind, and a
 * context no memory. */
#include <malloc.h>
#include <stdlib.h>
#include <tigon/npu.h>

#include "../common/test.h"

enum { BT = 12, H = 16, V = 80, CHUNKS = 3 };

static int launches, beside_cross_entropy, beside_jsd;

static void count_launch(void *user, const tg_npu_launch *launch)
{
    (void)user;
    launches++;
    beside_cross_entropy += !strcmp(launch->kernel, "gemm_beside_cross_entropy_bf16");
    beside_jsd += !strcmp(launch->kernel, "gemm_beside_softmax_jsd_bf16");
}

static int until_failure; /* allocations; 0: none fails */

static void *alloc_in_turn(void *user, size_t bytes)
{
    (void)user;
    return until_failure && --until_failure == 0 ? NULL : aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static void free_block(void *user, void *block)
{
    (void)user;
    free(block);
}

static tg_status call(tg_ctx *ctx, int jsd)
{
    static uint16_t x[BT * H], weight[V * H], dx[BT * H];
    static float dweight[V * H], sum;
    static int64_t target[BT];
    int64_t of_x[] = {BT, H}, of_weight[] = {V, H};
    tg_tensor tx = tg_tensor_of(x, TG_BF16, 2, of_x),
              tw = tg_tensor_of(weight, TG_BF16, 2, of_weight);
    tg_tensor tdx = tg_tensor_of(dx, TG_BF16, 2, of_x),
              tdw = tg_tensor_of(dweight, TG_F32, 2, of_weight);
    tg_tensor tt = tg_tensor_of(target, TG_I64, 1, of_x), tl = tg_tensor_of(&sum, TG_F32, 0, NULL);
    const int64_t row = V * (jsd ? 10 : 6), bytes = 2 * (BT / CHUNKS) * row;
    launches = beside_cross_entropy = beside_jsd = 0;
    if (jsd)
        return tg_fused_linear_jsd_forward(
            ctx, &(tg_fused_linear_jsd_forward_args){.x = &tx,
                                                     .weight = &tw,
                                                     .teacher_x = &tx,
                                                     .teacher_weight = &tw,
                                                     .loss = &tl,
                                                     .dx = &tdx,
                                                     .dweight = &tdw,
                                                     .chunk_bytes = bytes});
    return tg_fused_linear_cross_entropy_forward(
        ctx, &(tg_fused_linear_cross_entropy_forward_args){.x = &tx,
                                                           .weight = &tw,
                                                           .target = &tt,
                                                           .loss = &tl,
                                                           .dx = &tdx,
                                                           .dweight = &tdw,
                                                           .chunk_bytes = bytes});
}

static void check_paired(tg_ctx *ctx, int jsd)
{
    EXPECT(call(ctx, jsd) == TG_OK, "%s", tg_last_error());
    const int beside = jsd ? beside_jsd : beside_cross_entropy;
    EXPECT(beside >= CHUNKS, "%d products with a loss beside them, expected %d or more", beside,
           CHUNKS);
}

/* Without gradients a loss runs beside the next chunk's product: of so many classes that its kernel
 * is the one that products have. */
static void check_without_gradients(tg_ctx *ctx)
{
    enum { CLASSES = 33000 };
    static uint16_t x[BT * H], weight[CLASSES * H];
    static float sum;
    static int64_t target[BT];
    int64_t of_x[] = {BT, H}, of_weight[] = {CLASSES, H};
    tg_tensor tx = tg_tensor_of(x, TG_BF16, 2, of_x),
              tw = tg_tensor_of(weight, TG_BF16, 2, of_weight);
    tg_tensor tt = tg_tensor_of(target, TG_I64, 1, of_x), tl = tg_tensor_of(&sum, TG_F32, 0, NULL);
    beside_cross_entropy = 0;
    EXPECT(tg_fused_linear_cross_entropy_forward(
               ctx,
               &(tg_fused_linear_cross_entropy_forward_args){
                   .x = &tx,
                   .weight = &tw,
                   .target = &tt,
                   .loss = &tl,
                   .chunk_bytes = (int64_t)2 * (BT / CHUNKS) * CLASSES * 4}) == TG_OK,
           "%s", tg_last_error());
    EXPECT(beside_cross_entropy == CHUNKS - 1,
           "without gradients: %d products with a loss beside them, expected %d",
           beside_cross_entropy, CHUNKS - 1);
}

/* One launch, and nothing of an earlier call before it. */
static void check_nothing_left(tg_ctx *ctx, int n)
{
    static float x[64], y[64];
    int64_t shape[] = {1, 64};
    tg_tensor tx = tg_tensor_of(x, TG_F32, 2, shape), ty = tg_tensor_of(y, TG_F32, 2, shape);
    launches = 0;
    EXPECT(tg_softmax_forward(ctx, &(tg_softmax_forward_args){.x = &tx, .y = &ty}) == TG_OK, "%s",
           tg_last_error());
    EXPECT(launches == 1, "after allocation %d failed: %d launches, expected 1", n, launches);
}

static void check_failures(tg_ctx *ctx, int jsd)
{
    tg_status status = TG_ENOMEM;
    EXPECT(tg_ctx_set_allocator(ctx, alloc_in_turn, free_block, NULL) == TG_OK, "%s",
           tg_last_error());
    for (int n = 1; status != TG_OK; n++) {
        tg_ctx_workspace_trim(ctx);
        until_failure = n;
        status = call(ctx, jsd);
        EXPECT(status == TG_OK || status == TG_ENOMEM, "%s", tg_last_error());
        until_failure = 0;
        check_nothing_left(ctx, n);
    }
}

static tg_ctx *model_context(void)
{
    tg_ctx *ctx = new_context();
    EXPECT(tg_ctx_set_device(ctx, "npu-model") == TG_OK, "%s", tg_last_error());
    return ctx;
}

static size_t in_use(void)
{
    const struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}

/* What is kept for a context's side ends with the context: of several rounds there is one
 * that leaves nothing. (In others the model's threads may take what each of them keeps
 * for a core, once.) */
static void check_contexts_end(void)
{
    enum {
        ROUNDS = 5,
        CONTEXTS = 12,
        MOST = 1 << 14 /* bytes, of all contexts of a round: a quarter of what one keeps */
    };
    size_t least = SIZE_MAX;
    for (int round = 0; round < ROUNDS; round++) {
        const size_t before = in_use();
        for (int i = 0; i < CONTEXTS; i++) {
            tg_ctx *ctx = model_context();
            check_paired(ctx, 0);
            tg_ctx_destroy(ctx);
        }
        const size_t after = in_use(), grown = after > before ? after - before : 0;
        least = grown < least ? grown : least;
    }
    EXPECT(least < MOST, "each round of %d contexts leaves %zu bytes or more", CONTEXTS, least);
}

int main(void)
{
    tg_ctx *ctx = model_context();
    tg_npu_watch(count_launch, NULL);
    for (int jsd = 0; jsd < 2; jsd++) {
        check_paired(ctx, jsd);
        check_failures(ctx, jsd);
        check_paired(ctx, jsd);
    }
    check_without_gradients(ctx);
    tg_ctx_destroy(ctx);
    check_contexts_end();
    tg_npu_watch(NULL, NULL);
    return report();
}
