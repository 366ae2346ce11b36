/* The backend's host path without a card, on the stand-in for CANN's run time (stand_in.c).
 *   ascend_card run             a device is chosen, kernels are launched with the right
 *                               arguments, the host steps in
 *   ascend_card mix             a mix kernel is given what its cores signal each other through,
 *                               as its last argument
 *   ascend_card mix_fails TEXT  its launch fails with this text
 *   ascend_card product         CANN's own product is taken where it is preferred, and where
 *                               it refuses, our kernel
 *   ascend_card product_fails TEXT  it fails with this text
 *   ascend_card two_cards       a context works on the card that was current when it was made
 *   ascend_card refused TEXT    the device cannot be chosen, and the message has this text
 *   ascend_card inferred NAME   without a choice that device is taken; the CPU with one line of log
 *   ascend_card fails TEXT      it can, but a call fails with this text
 * What was called is in the file STAND_IN_RECORD. */
#include <dlfcn.h>
#include <math.h>
#include <tigon/backend.h>

#include "../common/test.h"
#include "stand_in.h"

enum { R = 37, F = 1000, BYTES = R * F * 4 };

static int (*device_malloc)(void **, size_t, int);
static int (*device_free)(void *);
static int (*device_copy)(void *, size_t, const void *, size_t, int);

static int64_t shape[] = {R, F};

static tg_tensor on_device(void)
{
    void *memory = NULL;
    EXPECT(device_malloc(&memory, BYTES, 0) == 0, "no memory");
    tg_tensor t = tg_tensor_of(memory, TG_F32, 2, shape);
    t.device.device_type = TG_DEVICE_ASCEND;
    return t;
}

/* The last line of the record that begins so, without that beginning; "" if there is none. */
static const char *recorded(const char *beginning)
{
    static char line[4096], found[4096];
    FILE *f = fopen(getenv("STAND_IN_RECORD"), "r");
    *found = '\0';
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, beginning, strlen(beginning)))
            snprintf(found, sizeof found, "%s", line + strlen(beginning));
    if (f)
        fclose(f);
    return found;
}

/* Word i of a recorded launch: 0 is the number of blocks, then come the arguments. */
static long long word(const char *launch, int i)
{
    while (i-- > 0 && launch)
        launch = strchr(launch, ' ') ? strchr(launch, ' ') + 1 : NULL;
    return launch ? strtoll(launch + (strncmp(launch, "memory:", 7) ? 0 : 7), NULL, 10) : -1;
}

static tg_status swiglu(tg_ctx *ctx, const tg_tensor *gate, const tg_tensor *up, tg_tensor *y)
{
    const tg_swiglu_forward_args args = {.gate = gate, .up = up, .y = y, .gate_multiplier = 0.5};
    return tg_swiglu_forward(ctx, &args);
}

static void check_launch(tg_ctx *ctx, const tg_tensor *gate, const tg_tensor *up, tg_tensor *y)
{
    EXPECT(swiglu(ctx, gate, up, y) == TG_OK, "%s", tg_last_error());
    EXPECT(!strcmp(tg_ctx_last_impl(ctx), "ascend/swiglu_forward"), "%s", tg_ctx_last_impl(ctx));
    const char *launch = recorded("launch swiglu_forward_f32 ");
    /* blocks, 3 tensors with their strides, rows, columns, tile rows, tile columns,
     * multipliers, places */
    const long long cores = atoi(getenv("STAND_IN_CORES") ? getenv("STAND_IN_CORES") : "40");
    EXPECT(word(launch, 0) > 1 && word(launch, 0) <= cores, "%lld blocks", word(launch, 0));
    for (int i = 1; i <= 5; i += 2)
        EXPECT(word(launch, i) == BYTES, "argument %d: room for %lld bytes", i, word(launch, i));
    EXPECT(word(launch, 7) == 1 && word(launch, 8) == R * F, "rows %lld, columns %lld",
           word(launch, 7), word(launch, 8));
    EXPECT(word(launch, 9) == 1 && word(launch, 10) > 0, "a tile of %lld x %lld", word(launch, 9),
           word(launch, 10));
    EXPECT(word(launch, 11) == 0x3f000000 && word(launch, 12) == 0x3f800000,
           "multipliers %llx, %llx", word(launch, 11), word(launch, 12));
    printf("tile %lld, blocks %lld\n", word(launch, 10), word(launch, 0));
}

static int count(const char *function)
{
    char line[4096];
    int n = 0;
    FILE *f = fopen(getenv("STAND_IN_RECORD"), "r");
    const size_t length = strlen(function);
    while (f && fgets(line, sizeof line, f))
        n += !strncmp(line, function, length) && line[length] == '\n';
    if (f)
        fclose(f);
    return n;
}

/* Within the device nothing waits; a copy to the host does. */
static void check_copies(tg_ctx *ctx, tg_tensor *to, const tg_tensor *from)
{
    static char host[BYTES];
    const int waits = count("aclrtSynchronizeStream");
    EXPECT(tg_copy(ctx, to->data, TG_DEVICE_ASCEND, from->data, TG_DEVICE_ASCEND, BYTES) == TG_OK,
           "%s", tg_last_error());
    EXPECT(count("aclrtSynchronizeStream") == waits && count("aclrtMemcpyAsync") > 0,
           "a copy within the device waits");
    EXPECT(tg_copy(ctx, host, TG_DEVICE_CPU, from->data, TG_DEVICE_ASCEND, BYTES) == TG_OK, "%s",
           tg_last_error());
    EXPECT(count("aclrtSynchronizeStream") == waits + 1, "a copy to the host does not wait");
}

/* A type without an implementation on the card: copied in, run on the CPU, copied out. */
static void check_host(tg_ctx *ctx, const tg_tensor *in, const tg_tensor *out)
{
    static double host[R * F / 2];
    for (int i = 0; i < R * F / 2; i++)
        host[i] = i % 11 - 5;
    device_copy(in->data, BYTES, host, BYTES, 1);
    const int64_t shape[] = {R, F / 2};
    tg_tensor x = tg_tensor_of(in->data, TG_F64, 2, shape);
    tg_tensor y = tg_tensor_of(out->data, TG_F64, 2, shape);
    x.device = in->device;
    y.device = out->device;
    const tg_sparsemax_forward_args args = {.x = &x, .y = &y};
    EXPECT(tg_sparsemax_forward(ctx, &args) == TG_EUNSUPPORTED &&
               strstr(tg_last_error(), "TIGON_FALLBACK"),
           "%s", tg_last_error());
    tg_ctx_set_fallback(ctx, TG_FALLBACK_HOST);
    EXPECT(tg_sparsemax_forward(ctx, &args) == TG_OK, "%s", tg_last_error());
    device_copy(host, BYTES, out->data, BYTES, 2);
    double sum = 0;
    for (int i = 0; i < F / 2; i++)
        sum += host[i];
    EXPECT(fabs(sum - 1) < 1e-12, "a row of sparsemax sums to %g", sum);
}

/* One head of R queries and keys, in the memory of three tensors; 64 of each row. */
static tg_status attend(tg_ctx *ctx, const tg_tensor *from, const tg_tensor *to)
{
    const int64_t sizes[] = {1, R, 1, 64};
    tg_tensor x = tg_tensor_of(from->data, TG_F32, 4, sizes);
    tg_tensor y = tg_tensor_of(to->data, TG_F32, 4, sizes);
    x.device = from->device;
    y.device = to->device;
    const tg_flash_attention_forward_args args = {.q = &x, .k = &x, .v = &x, .y = &y};
    return tg_flash_attention_forward(ctx, &args);
}

static void check_mix(tg_ctx *ctx, const tg_tensor *from, const tg_tensor *to)
{
    EXPECT(attend(ctx, from, to) == TG_OK, "%s", tg_last_error());
    const char *launch = recorded("launch flash_attention_forward_f32 ");
    const char *last = strrchr(launch, ' ');
    EXPECT(word(launch, 0) == 1, "%lld blocks, expected 1: a block is a cube core and two others",
           word(launch, 0));
    EXPECT(last && atoi(last) == STAND_IN_SYNC, "the last argument is%s, expected %d",
           last ? last : " absent", STAND_IN_SYNC);
}

/* Rows of c, k and columns of 32 elements each, in the memory of three tensors. */
static tg_status multiply(tg_ctx *ctx, int type, int64_t rows, const tg_tensor *from,
                          const tg_tensor *to)
{
    const int64_t sizes[] = {rows, 32};
    tg_tensor a = tg_tensor_of(from->data, type, 2, sizes),
              c = tg_tensor_of(to->data, type, 2, sizes);
    a.device = from->device;
    c.device = to->device;
    const int64_t square[] = {32, 32};
    tg_tensor b = a;
    b.shape = (int64_t *)square;
    return tg_gemm(ctx, &(tg_gemm_args){.a = &a, .b = &b, .c = &c});
}

static void check_product(tg_ctx *ctx, const tg_tensor *from, const tg_tensor *to)
{
    static const struct {
        int type;
        int64_t rows;
        const char *impl;
    } products[] = {{TG_F32, 40, "ascend/gemm.aclnn"},
                    {TG_BF16, 17, "ascend/gemm.aclnn"},
                    {TG_F32, 16, "ascend/gemm"},
                    {TG_F16, 40, "ascend/gemm"}};
    EXPECT(!*tg_impl_at(tg_find(ctx, "ascend/gemm"))->variant, "ascend/gemm is another");
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        EXPECT(multiply(ctx, products[i].type, products[i].rows, from, to) == TG_OK, "%s",
               tg_last_error());
        EXPECT(!strcmp(tg_ctx_last_impl(ctx), products[i].impl), "product %zu by %s, expected %s",
               i, tg_ctx_last_impl(ctx), products[i].impl);
    }
}

/* Whichever card is current when it is called; and that is current afterwards. */
static void check_two_cards(void)
{
    void *library = dlopen("libascendcl.so", RTLD_NOW);
    int (*set_device)(int32_t), (*get_device)(int32_t *);
    int32_t current = -1;
    tg_ctx *second;
    *(void **)&set_device = dlsym(library, "aclrtSetDevice");
    *(void **)&get_device = dlsym(library, "aclrtGetDevice");
    set_device(1);
    EXPECT(tg_ctx_create(&second) == TG_OK, "%s", tg_last_error());
    EXPECT(count("aclrtBinaryLoadFromFile") == 6,
           "%d binaries are loaded, expected 3 for each card", count("aclrtBinaryLoadFromFile"));
    tg_tensor gate = on_device(), up = on_device(), y = on_device();
    set_device(0);
    check_launch(second, &gate, &up, &y);
    EXPECT(tg_sync(second) == TG_OK, "%s", tg_last_error());
    EXPECT(get_device(&current) == 0 && current == 0, "the card is %d, expected 0", (int)current);
    device_free(gate.data);
    device_free(up.data);
    device_free(y.data);
    tg_ctx_destroy(second);
}

static int fails_with(const char *text, tg_status status)
{
    EXPECT(status != TG_OK && strstr(tg_last_error(), text), "%s: \"%s\", expected \"%s\"",
           tg_status_name(status), tg_last_error(), text);
    return report();
}

static int lines;

static void count_line(void *user, const char *line)
{
    (void)user;
    lines += strstr(line, "device npu is here but cannot be used") != NULL;
}

static int inferred(const char *name)
{
    tg_ctx *ctx;
    tg_set_log(count_line, NULL);
    EXPECT(tg_ctx_create(&ctx) == TG_OK, "%s", tg_last_error());
    EXPECT(!strcmp(tg_ctx_device(ctx), name), "device %s, expected %s", tg_ctx_device(ctx), name);
    EXPECT(lines == !strcmp(name, "cpu"), "%d lines of log", lines);
    tg_ctx_destroy(ctx);
    return report();
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "", *text = argc > 2 ? argv[2] : "";
    tg_ctx *ctx = NULL;
    if (!strcmp(mode, "inferred"))
        return inferred(text);
    setenv("TIGON_DEVICE", "npu", 1);
    const tg_status status = tg_ctx_create(&ctx);
    if (!strcmp(mode, "refused"))
        return fails_with(text, status);
    EXPECT(status == TG_OK, "%s", tg_last_error());
    if (status != TG_OK)
        return report();
    void *library = dlopen("libascendcl.so", RTLD_NOW);
    *(void **)&device_malloc = dlsym(library, "aclrtMalloc");
    *(void **)&device_free = dlsym(library, "aclrtFree");
    *(void **)&device_copy = dlsym(library, "aclrtMemcpy");
    tg_tensor gate = on_device(), up = on_device(), y = on_device();
    if (!strcmp(mode, "mix")) {
        check_mix(ctx, &gate, &y);
    } else if (!strcmp(mode, "mix_fails")) {
        fails_with(text, attend(ctx, &gate, &y));
    } else if (!strcmp(mode, "two_cards")) {
        check_two_cards();
    } else if (!strcmp(mode, "product")) {
        check_product(ctx, &gate, &y);
    } else if (!strcmp(mode, "product_fails")) {
        fails_with(text, multiply(ctx, TG_F32, 40, &gate, &y));
    } else if (!strcmp(mode, "fails")) {
        tg_ctx_set_verbose(ctx, 1); /* with events */
        fails_with(text, swiglu(ctx, &gate, &up, &y));
    } else {
        check_launch(ctx, &gate, &up, &y);
        tg_ctx_set_verbose(ctx, 1);
        check_launch(ctx, &gate, &up, &y);
        check_copies(ctx, &y, &up);
        check_host(ctx, &gate, &y);
    }
    device_free(gate.data);
    device_free(up.data);
    device_free(y.data);
    tg_ctx_destroy(ctx);
    return report();
}
