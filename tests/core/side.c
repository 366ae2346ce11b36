/* Work beside other work, on a device that can: what its backend is told, and that scratch memory
 * of a side is nobody else's before the join. Its gemm and cross_entropy compute nothing;
 * everything else is the CPU's. */
#include <sys/mman.h>
#include <tigon/backend.h>

#include "../common/test.h"

enum { BT = 12, H = 4, V = 40, CHUNKS = 3, SCRATCH = 1000 };

static const tg_host *host;
static char steps[256];   /* B, E, J, D of the side; p a product, l a loss */
static void *side_memory; /* of a side that has not been joined */
static int in_side;       /* between begin and end */
static int calls_until_failure;

static void note(char what)
{
    const size_t n = strlen(steps);
    if (n + 1 < sizeof steps)
        steps[n] = what;
}

static tg_status fail_in_turn(void)
{
    return --calls_until_failure == 0 ? host->fail(TG_EDEVICE, "gemm: it broke") : TG_OK;
}

static tg_status product(tg_ctx *ctx, const tg_gemm_args *args)
{
    (void)args;
    note('p');
    void *const memory = host->device_workspace(ctx, SCRATCH);
    EXPECT(memory && memory != side_memory, "a product is given the scratch of a side");
    return fail_in_turn();
}

static tg_status loss(tg_ctx *ctx, const tg_cross_entropy_forward_args *args)
{
    (void)args;
    note('l');
    void *const memory = host->device_workspace(ctx, SCRATCH);
    EXPECT(memory && memory != side_memory, "a second loss is given the scratch of the first");
    side_memory = in_side ? memory : NULL;
    return fail_in_turn();
}

static tg_status step(tg_ctx *ctx, tg_side_step which)
{
    (void)ctx;
    note("BEJD"[which]);
    in_side = which == TG_SIDE_BEGIN;
    if (which == TG_SIDE_JOIN || which == TG_SIDE_DROP)
        side_memory = NULL;
    return TG_OK;
}

static tg_status open_backend(const tg_host *given)
{
    host = given;
    return TG_OK;
}

static const tg_impl impls[] = {TG_IMPL(gemm, "", 0, TG_TAKES_FLOATS, NULL, product),
                                TG_IMPL(cross_entropy_forward, "", 0, TG_TAKES_FLOATS, NULL, loss),
                                TG_IMPLS_END};

static const tg_backend twofold = {.abi = TG_ABI,
                                   .size = sizeof(tg_backend),
                                   .vendor = "twofold",
                                   .device = "twofold",
                                   .device_type = TG_DEVICE_CPU,
                                   .open = open_backend,
                                   .impls = impls,
                                   .side = step};

/* The same without a side. */
static const tg_backend single = {.abi = TG_ABI,
                                  .size = sizeof(tg_backend),
                                  .vendor = "single",
                                  .device = "single",
                                  .device_type = TG_DEVICE_CPU,
                                  .open = open_backend,
                                  .impls = impls};

static tg_status call(tg_ctx *ctx, int gradients, int64_t chunk_bytes)
{
    static float x[BT * H], weight[V * H], dx[BT * H], dweight[V * H], sum;
    static int64_t target[BT];
    int64_t of_x[] = {BT, H}, of_weight[] = {V, H};
    tg_tensor tx = tg_tensor_of(x, TG_F32, 2, of_x),
              tw = tg_tensor_of(weight, TG_F32, 2, of_weight);
    tg_tensor tdx = tg_tensor_of(dx, TG_F32, 2, of_x),
              tdw = tg_tensor_of(dweight, TG_F32, 2, of_weight);
    tg_tensor tt = tg_tensor_of(target, TG_I64, 1, of_x), tl = tg_tensor_of(&sum, TG_F32, 0, NULL);
    memset(steps, 0, sizeof steps);
    side_memory = NULL;
    return tg_fused_linear_cross_entropy_forward(
        ctx, &(tg_fused_linear_cross_entropy_forward_args){.x = &tx,
                                                           .weight = &tw,
                                                           .target = &tt,
                                                           .loss = &tl,
                                                           .dx = gradients ? &tdx : NULL,
                                                           .dweight = gradients ? &tdw : NULL,
                                                           .chunk_bytes = chunk_bytes});
}

static void expect(tg_status status, const char *expected)
{
    EXPECT(status == TG_OK, "%s", tg_last_error());
    EXPECT(!strcmp(steps, expected), "steps were %s, expected %s", steps, expected);
}

/* Memory that nobody touches. */
static void *pages(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* Logits of 1.5 GiB and a gradient whose f32 sums would take 2 GiB, where 1 GiB is what
 * chunks have by default. */
static void one_chunk(void)
{
    enum { ROWS = 256, HIDDEN = 512, CLASSES = 1 << 20 };
    static uint16_t x[ROWS * HIDDEN], dx[ROWS * HIDDEN];
    static int64_t target[ROWS];
    static float sum;
    const size_t bytes = (size_t)CLASSES * HIDDEN * sizeof *x;
    int64_t of_x[] = {ROWS, HIDDEN}, of_weight[] = {CLASSES, HIDDEN};
    tg_tensor tx = tg_tensor_of(x, TG_BF16, 2, of_x), tdx = tg_tensor_of(dx, TG_BF16, 2, of_x);
    tg_tensor tw = tg_tensor_of(pages(bytes), TG_BF16, 2, of_weight), tdw = tw;
    tg_tensor tt = tg_tensor_of(target, TG_I64, 1, of_x), tl = tg_tensor_of(&sum, TG_F32, 0, NULL);
    tdw.data = pages(bytes);
    EXPECT(tw.data && tdw.data, "no addresses");
    tg_ctx *ctx = new_context();
    EXPECT(tg_backend_register(&single) == TG_OK, "%s", tg_last_error());
    EXPECT(tg_ctx_set_device(ctx, "single") == TG_OK, "%s", tg_last_error());
    memset(steps, 0, sizeof steps);
    expect(
        tg_fused_linear_cross_entropy_forward(
            ctx,
            &(tg_fused_linear_cross_entropy_forward_args){
                .x = &tx, .weight = &tw, .target = &tt, .loss = &tl, .dx = &tdx, .dweight = &tdw}),
        "plpp");
    munmap(tw.data, bytes);
    munmap(tdw.data, bytes);
    tg_ctx_destroy(ctx);
}

int main(void)
{
    tg_ctx *ctx = new_context();
    EXPECT(tg_backend_register(&twofold) == TG_OK, "%s", tg_last_error());
    EXPECT(tg_ctx_set_device(ctx, "twofold") == TG_OK, "%s", tg_last_error());
    const int64_t two_chunks = 2 * (BT / CHUNKS) * V * (int64_t)sizeof(float);
    expect(call(ctx, 1, two_chunks), "pBlEpJBlEpppJBlEppJpp");
    expect(call(ctx, 1, 0), "plpp"); /* one chunk has nothing beside it */
    expect(call(ctx, 0, two_chunks / 2), "pBlEpJBlEpJBlEpJBlEpJBlEpJBlEJ");
    /* whatever fails, a side that was begun ends, and what comes next begins anew */
    tg_status status = TG_EDEVICE;
    for (int n = 1; status != TG_OK; n++) {
        calls_until_failure = n;
        status = call(ctx, 1, two_chunks);
        EXPECT(status == TG_OK || status == TG_EDEVICE, "%s", tg_last_error());
        int open = 0;
        for (const char *s = steps; *s; s++)
            open += (*s == 'B') - (*s == 'J' || *s == 'D');
        EXPECT(open == 0, "call %d fails: a side stays open: %s", n, steps);
    }
    calls_until_failure = 0;
    expect(call(ctx, 1, two_chunks), "pBlEpJBlEpppJBlEppJpp");
    /* another backend's work in a side runs in the order of the calls */
    EXPECT(tg_ctx_set_op_impl(ctx, "cross_entropy_forward", "cpu") == TG_OK, "%s", tg_last_error());
    expect(call(ctx, 1, two_chunks), "pBJpBJpppBJpppp");
    tg_ctx_destroy(ctx);
    one_chunk();
    return report();
}
