/* Contexts on two streams and on two cards at once, and calls that the program itself records into a CUDA graph. The driver is loaded here as
 * well, for its streams, graphs and memory. Without a card, or without libtigon_cuda.so, the test is skipped.
 *   cuda_streams */
#include <dlfcn.h>

#include "calls.h"

/* ---- the driver's streams and graphs ---- */

static int (*stream_create)(void **stream, unsigned flags), (*stream_destroy)(void *stream),
    (*capture)(void *stream, int mode), (*capture_end)(void *stream, void **graph),
    (*instantiate)(void **ready, void *graph, unsigned long long flags),
    (*launch)(void *ready, void *stream), (*delete_graph)(void *graph),
    (*delete_ready)(void *ready), (*card_count)(int *count), (*card_at)(int *card, int number),
    (*retain)(void **card_context, int card), (*set_current)(void *card_context),
    (*alloc)(void **memory, size_t bytes), (*release)(void *memory);

static int load_driver(void)
{
    const struct {
        void *at;
        const char *name;
    } functions[] = {{&stream_create, "cuStreamCreate"},
                     {&stream_destroy, "cuStreamDestroy_v2"},
                     {&capture, "cuStreamBeginCapture_v2"},
                     {&capture_end, "cuStreamEndCapture"},
                     {&instantiate, "cuGraphInstantiateWithFlags"},
                     {&launch, "cuGraphLaunch"},
                     {&delete_graph, "cuGraphDestroy"},
                     {&delete_ready, "cuGraphExecDestroy"},
                     {&card_count, "cuDeviceGetCount"},
                     {&card_at, "cuDeviceGet"},
                     {&retain, "cuDevicePrimaryCtxRetain"},
                     {&set_current, "cuCtxSetCurrent"},
                     {&alloc, "cuMemAlloc_v2"},
                     {&release, "cuMemFree_v2"}};
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    for (size_t i = 0; driver && i < sizeof functions / sizeof *functions; i++)
        if (!(*(void **)functions[i].at = dlsym(driver, functions[i].name)))
            return 0;
    return driver != NULL;
}

/* Recorded, then run twice with other inputs than those it was recorded with. */
static void check_graph(void)
{
    tg_ctx *ctx = card_context();
    void *stream, *graph, *ready;
    problem p;
    size_t bytes;
    make(&p, ctx, 3);
    EXPECT(stream_create(&stream, 1) == 0, "no stream");
    tg_ctx_set_stream(ctx, stream);
    call(&p); /* takes the workspace */
    unsigned char *expected = results(&p, &bytes);
    EXPECT(capture(stream, 0) == 0, "no capture");
    call(&p);
    EXPECT(capture_end(stream, &graph) == 0, "the calls cannot be recorded");
    EXPECT(instantiate(&ready, graph, 0) == 0, "the graph cannot be made ready");
    for (int i = 0; i < 2; i++) {
        wipe(&p);
        EXPECT(launch(ready, stream) == 0, "the graph cannot be launched");
        expect_same(&p, expected, bytes, "a replay");
    }
    free(expected);
    drop(&p);
    EXPECT(delete_ready(ready) == 0 && delete_graph(graph) == 0, "the graph stays");
    tg_ctx_destroy(ctx);
    EXPECT(stream_destroy(stream) == 0, "the stream stays");
}

/* Two contexts, two streams, and calls of both without waiting in between. */
static void check_streams(void)
{
    problem p[2];
    void *stream[2];
    unsigned char *expected[2];
    size_t bytes[2];
    for (int i = 0; i < 2; i++) {
        make(&p[i], card_context(), 7 * i);
        call(&p[i]);
        expected[i] = results(&p[i], &bytes[i]);
        wipe(&p[i]);
        EXPECT(stream_create(&stream[i], 1) == 0, "no stream");
        tg_ctx_set_stream(p[i].ctx, stream[i]);
    }
    for (int round = 0; round < 50; round++)
        call(&p[round % 2]);
    for (int i = 0; i < 2; i++) {
        expect_same(&p[i], expected[i], bytes[i], "another stream");
        free(expected[i]);
        drop(&p[i]);
        tg_ctx_destroy(p[i].ctx);
        EXPECT(stream_destroy(stream[i]) == 0, "the stream stays");
    }
}

/* Two cards, a context each, and calls of both in turn. A context works on the card of the first tensors that it sees. */
static void check_two_cards(void)
{
    int cards = 0, second;
    void *of_second, *memory[TENSORS];
    unsigned char *expected[2];
    size_t bytes[2];
    problem p[2], host;
    if (card_count(&cards) || cards < 2) {
        printf("two cards: not tested, there is one\n");
        return;
    }
    EXPECT(!card_at(&second, 1) && !retain(&of_second, second), "no second card");
    make(&p[0], card_context(), 2);
    make(&host, card_context(), 9);
    p[1] = host;
    p[1].ctx = card_context();
    EXPECT(!set_current(of_second), "the second card cannot be used");
    for (int i = 0; i < TENSORS; i++) {
        EXPECT(!alloc(&memory[i], bytes_of(&host, i)), "no memory on the second card");
        p[1].t[i].data = memory[i];
        p[1].t[i].device.device_id = 1;
    }
    tg_tensor nothing = p[1].t[X];
    int64_t no_rows[2] = {0, N};
    nothing.shape = no_rows;
    EXPECT(tg_rms_norm_forward(p[1].ctx,
                               &(tg_rms_norm_forward_args){.x = &nothing, .y = &nothing}) == TG_OK,
           "%s", tg_last_error());
    for (int i = 0; i < TENSORS; i++)
        copy(&p[1], i, 1);
    call(&host);
    expected[1] = results(&host, &bytes[1]);
    call(&p[0]);
    expected[0] = results(&p[0], &bytes[0]);
    for (int i = 0; i < 2; i++)
        wipe(&p[i]);
    for (int round = 0; round < 20; round++)
        call(&p[round % 2]);
    for (int i = 0; i < 2; i++) {
        expect_same(&p[i], expected[i], bytes[i], "another card");
        free(expected[i]);
    }
    for (int i = 0; i < TENSORS; i++)
        EXPECT(!release(memory[i]), "the memory stays");
    tg_ctx_destroy(p[1].ctx);
    drop(&host);
    tg_ctx_destroy(host.ctx);
    drop(&p[0]);
    tg_ctx_destroy(p[0].ctx);
}

int main(void)
{
    tg_ctx *ctx = new_context();
    if (tg_ctx_set_device(ctx, "cuda") != TG_OK || !load_driver()) {
        printf("not tested: %s\n", tg_last_error());
        return 77;
    }
    tg_ctx_destroy(ctx);
    check_graph();
    check_streams();
    check_two_cards();
    return report();
}
