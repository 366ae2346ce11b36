/* An NPU's backend from outside: its kernels are known with their buffers, and who watches
 * hears of its launches. */
#include <tigon/backend.h>
#include <tigon/npu.h>

#include "../common/test.h"

static const tg_ub_buffer buffers[] = {{.name = "x", .copies = 2}};
static const tg_ub_kernel kernels[] = {
    {.name = "softmax_forward.acme", .nbuffers = 1, .buffers = buffers},
    {.name = "acme_sums", .nbuffers = 1, .buffers = buffers},
};

static const tg_ub_kernel *ub_kernel(int kernel)
{
    return kernel < 2 ? &kernels[kernel] : NULL;
}

/* A launch, as a backend reports it. */
static tg_status forward(tg_ctx *ctx, const tg_softmax_forward_args *args)
{
    const tg_npu_launch launch = {.kernel = "acme_softmax", .clock = "device", .plan = kernels};
    (void)ctx, (void)args;
    if (tg_npu_is_watched())
        tg_npu_launched(&launch);
    if (tg_npu_is_recorded())
        tg_npu_recorded(&(tg_npu_record){.launch = &launch, .source = __FILE__});
    return TG_OK;
}

static const tg_impl impls[] = {TG_IMPL(softmax_forward, "", 0, TG_TAKES_FLOATS, NULL, forward),
                                TG_IMPLS_END};
static const tg_backend acme = {TG_ABI,         sizeof(tg_backend),    "acme", "cpu", TG_DEVICE_CPU,
                                .impls = impls, .ub_kernel = ub_kernel};

static int heard;

static void note_launch(void *user, const tg_npu_launch *launch)
{
    heard += user == &heard && !strcmp(launch->kernel, "acme_softmax") && launch->plan == kernels;
}

static int recorded;

static void note_record(void *user, const tg_npu_record *record)
{
    recorded += user == &recorded && !strcmp(record->launch->kernel, "acme_softmax") &&
                !strcmp(record->source, __FILE__);
}

int main(void)
{
    float value = 0;
    int64_t shape[] = {1};
    const tg_tensor x = tg_tensor_of(&value, TG_F32, 1, shape);
    tg_tensor y = x;
    const tg_softmax_forward_args args = {.x = &x, .y = &y};
    const int before = tg_ub_kernel_count();
    EXPECT(!tg_ub_kernel_find("acme_sums"), "a kernel of a backend that is not there");
    EXPECT(tg_backend_register(&acme) == TG_OK, "%s", tg_last_error());
    EXPECT(tg_ub_kernel_count() == before + 2, "%d kernels, expected %d", tg_ub_kernel_count(),
           before + 2);
    EXPECT(tg_ub_kernel_find("acme_sums") == &kernels[1], "its second kernel is not found");
    EXPECT(tg_ub_kernel_find("softmax_forward.acme") == &kernels[0], "nor its first");
    EXPECT(!tg_ub_kernel_at(before + 2) && !tg_ub_kernel_at(-1), "a kernel behind the last");
    tg_ctx *ctx = new_context();
    tg_ctx_set_impl(ctx, "acme");
    EXPECT(tg_softmax_forward(ctx, &args) == TG_OK && heard == 0, "%s", tg_last_error());
    tg_npu_watch(note_launch, &heard);
    EXPECT(tg_softmax_forward(ctx, &args) == TG_OK && heard == 1, "heard %d", heard);
    tg_npu_watch_records(note_record, &recorded);
    EXPECT(tg_softmax_forward(ctx, &args) == TG_OK && heard == 2 && recorded == 1,
           "heard %d, recorded %d", heard, recorded);
    tg_npu_watch(NULL, NULL);
    EXPECT(tg_softmax_forward(ctx, &args) == TG_OK && heard == 2 && recorded == 2,
           "heard %d, recorded %d", heard, recorded);
    tg_npu_watch_records(NULL, NULL);
    EXPECT(tg_softmax_forward(ctx, &args) == TG_OK && heard == 2 && recorded == 2,
           "heard %d, recorded %d", heard, recorded);
    tg_ctx_destroy(ctx);
    return report();
}
