/* Contexts on two streams at once, and calls that the program itself records into a CUDA graph.
 * Without a card, or without libtigon_cuda.so, the test is skipped.
 *   cuda_streams */
#include "calls.h"
#include "driver.h"

/* Recorded, then run twice where its outputs were wiped; called once before, or never. */
static void check_graph(int before)
{
    tg_ctx *ctx = card_context();
    void *stream, *graph, *ready;
    problem p;
    size_t bytes;
    make(&p, ctx, 3);
    EXPECT(stream_create(&stream, 1) == 0, "no stream");
    tg_ctx_set_stream(ctx, stream);
    if (before)
        call(&p);
    EXPECT(capture(stream, 0) == 0, "no capture");
    call(&p);
    EXPECT(capture_end(stream, &graph) == 0, "the calls cannot be recorded");
    EXPECT(instantiate(&ready, graph, 0) == 0, "the graph cannot be made ready");
    call(&p);
    unsigned char *expected = results(&p, &bytes);
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

int main(void)
{
    tg_ctx *ctx = new_context();
    if (tg_ctx_set_device(ctx, "cuda") != TG_OK || !load_driver()) {
        printf("not tested: %s\n", tg_last_error());
        return 77;
    }
    tg_ctx_destroy(ctx);
    check_graph(1);
    check_graph(0);
    check_streams();
    return report();
}
