/* On a card: indices out of range, contexts on two streams at once, and calls that are recorded into a graph. The driver is loaded
 * here as well, for its streams and graphs. Without a card, or without libtigon_cuda.so, the test is skipped.
 *   cuda_card */
#include <dlfcn.h>
#include <math.h>

#include "../common/test.h"

enum { R = 48, N = 1000, V = 50 };

/* ---- the driver's streams and graphs ---- */

static int (*stream_create)(void **stream, unsigned flags), (*stream_destroy)(void *stream),
    (*capture)(void *stream, int mode), (*capture_end)(void *stream, void **graph),
    (*instantiate)(void **ready, void *graph, unsigned long long flags),
    (*launch)(void *ready, void *stream), (*delete_graph)(void *graph),
    (*delete_ready)(void *ready);

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
                     {&delete_ready, "cuGraphExecDestroy"}};
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    for (size_t i = 0; driver && i < sizeof functions / sizeof *functions; i++)
        if (!(*(void **)functions[i].at = dlsym(driver, functions[i].name)))
            return 0;
    return driver != NULL;
}

/* ---- a norm, its gradients and a loss: on the card, and on the host ---- */

enum { X, WEIGHT, Y, RSTD, DY, DX, DWEIGHT, LOGITS, TARGET, LOSS, DLOGITS, TENSORS };
static const int64_t shape[TENSORS][2] = {{R, N}, {N},    {R, N}, {R}, {R, N}, {R, N},
                                          {N},    {R, V}, {R},    {1}, {R, V}};
static const int ndim[TENSORS] = {2, 1, 2, 1, 2, 2, 1, 2, 1, 1, 2};

typedef struct problem {
    tg_ctx *ctx;
    float *f[TENSORS]; /* on the host; of TARGET int64_t */
    tg_tensor t[TENSORS];
} problem;

static size_t bytes_of(const problem *p, int i)
{
    return (size_t)tg_numel(&p->t[i]) * tg_type_size(tg_type_of(&p->t[i]));
}

static void copy(problem *p, int i, int to_device)
{
    const int there = tg_ctx_device_type(p->ctx);
    EXPECT((to_device ? tg_copy(p->ctx, p->t[i].data, there, p->f[i], TG_DEVICE_CPU, bytes_of(p, i))
                      : tg_copy(p->ctx, p->f[i], TG_DEVICE_CPU, p->t[i].data, there,
                                bytes_of(p, i))) == TG_OK,
           "%s", tg_last_error());
}

static void make(problem *p, tg_ctx *ctx, int seed)
{
    p->ctx = ctx;
    for (int i = 0; i < TENSORS; i++) {
        p->t[i] = tg_tensor_of(NULL, i == TARGET ? TG_I64 : TG_F32, ndim[i], shape[i]);
        p->t[i].device.device_type = tg_ctx_device_type(ctx);
        p->f[i] = malloc(bytes_of(p, i));
        p->t[i].data = tg_alloc(ctx, bytes_of(p, i));
        EXPECT(p->t[i].data, "%s", tg_last_error());
        for (int k = 0; k < tg_numel(&p->t[i]); k++)
            if (i == TARGET)
                ((int64_t *)p->f[i])[k] = (k * 5 + seed) % V;
            else
                p->f[i][k] = (float)((k * 37 + i * 11 + seed) % 23) / 8 - 1;
        copy(p, i, 1);
    }
    EXPECT(tg_sync(ctx) == TG_OK, "%s", tg_last_error());
}

static void drop(problem *p)
{
    for (int i = 0; i < TENSORS; i++) {
        tg_free(p->ctx, p->t[i].data);
        free(p->f[i]);
    }
}

static void call(problem *p)
{
    tg_tensor *t = p->t;
    EXPECT(tg_rms_norm_forward(p->ctx, &(tg_rms_norm_forward_args){.x = &t[X],
                                                                   .weight = &t[WEIGHT],
                                                                   .y = &t[Y],
                                                                   .rstd = &t[RSTD]}) == TG_OK,
           "%s", tg_last_error());
    EXPECT(tg_rms_norm_backward(p->ctx, &(tg_rms_norm_backward_args){.dy = &t[DY],
                                                                     .x = &t[X],
                                                                     .weight = &t[WEIGHT],
                                                                     .rstd = &t[RSTD],
                                                                     .dx = &t[DX],
                                                                     .dweight = &t[DWEIGHT]}) ==
               TG_OK,
           "%s", tg_last_error());
    EXPECT(tg_cross_entropy_forward(
               p->ctx, &(tg_cross_entropy_forward_args){.logits = &t[LOGITS],
                                                        .target = &t[TARGET],
                                                        .loss = &t[LOSS],
                                                        .dlogits = &t[DLOGITS]}) == TG_OK,
           "%s", tg_last_error());
}

/* The results as bytes, one after the other. */
static unsigned char *results(problem *p, size_t *bytes)
{
    static const int outputs[] = {Y, RSTD, DX, DWEIGHT, LOSS, DLOGITS};
    unsigned char *all = NULL;
    *bytes = 0;
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++)
        copy(p, outputs[i], 0);
    EXPECT(tg_sync(p->ctx) == TG_OK, "%s", tg_last_error());
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
        const size_t more = bytes_of(p, outputs[i]);
        all = realloc(all, *bytes + more);
        memcpy(all + *bytes, p->f[outputs[i]], more);
        *bytes += more;
    }
    return all;
}

static void wipe(problem *p)
{
    static const int outputs[] = {Y, RSTD, DX, DWEIGHT, LOSS, DLOGITS};
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
        memset(p->f[outputs[i]], 0xff, bytes_of(p, outputs[i]));
        copy(p, outputs[i], 1);
    }
    EXPECT(tg_sync(p->ctx) == TG_OK, "%s", tg_last_error());
}

static void expect_same(problem *p, const unsigned char *expected, size_t bytes, const char *what)
{
    size_t n;
    unsigned char *found = results(p, &n);
    EXPECT(n == bytes && !memcmp(found, expected, bytes), "%s gives other bits", what);
    free(found);
}

/* ---- tests ---- */

static tg_ctx *card_context(void)
{
    tg_ctx *ctx = new_context();
    EXPECT(tg_ctx_set_device(ctx, "cuda") == TG_OK, "%s", tg_last_error());
    return ctx;
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

/* The wrong index is told of once, by its own context; its row is left alone, and all else goes on. */
static void check_indices(void)
{
    tg_ctx *ctx = card_context(), *other = card_context();
    problem p;
    make(&p, ctx, 1);
    ((int64_t *)p.f[TARGET])[3] = 99;
    copy(&p, TARGET, 1);
    for (int k = 0; k < R * V; k++)
        p.f[DLOGITS][k] = -7;
    copy(&p, DLOGITS, 1);
    call(&p);
    EXPECT(tg_sync(other) == TG_OK, "%s", tg_last_error());
    EXPECT(tg_sync(ctx) == TG_EINVAL &&
               strstr(tg_last_error(),
                      "cross_entropy_forward: target[3] is 99, out of bounds: expected in [0, 50)"),
           "%s", tg_last_error());
    EXPECT(tg_sync(ctx) == TG_OK, "%s", tg_last_error());
    copy(&p, DLOGITS, 0);
    copy(&p, LOSS, 0);
    EXPECT(tg_sync(ctx) == TG_OK, "%s", tg_last_error());
    EXPECT(p.f[LOSS][0] > 0 && isfinite(p.f[LOSS][0]), "the loss is %g", p.f[LOSS][0]);
    for (int j = 0; j < V; j++)
        EXPECT(p.f[DLOGITS][3 * V + j] == -7 && p.f[DLOGITS][2 * V + j] != -7, "gradient %d", j);

    ((int64_t *)p.f[TARGET])[3] = -1;
    copy(&p, TARGET, 1);
    const int64_t rows[] = {R, 20}, table[] = {V, 20};
    tg_tensor y = p.t[Y], dweight = p.t[X];
    y.shape = (int64_t *)rows;
    dweight.shape = (int64_t *)table;
    EXPECT(tg_embedding_backward(ctx, &(tg_embedding_backward_args){.dy = &y,
                                                                    .indices = &p.t[TARGET],
                                                                    .dweight = &dweight}) == TG_OK,
           "%s", tg_last_error());
    EXPECT(tg_sync(ctx) == TG_EINVAL &&
               strstr(tg_last_error(), "embedding_backward: indices[3] is -1, out of bounds"),
           "%s", tg_last_error());
    drop(&p);
    tg_ctx_destroy(ctx);
    tg_ctx_destroy(other);
}

/* Tensors of another card are refused, in words. */
static void check_cards(void)
{
    tg_ctx *ctx = card_context();
    problem p;
    make(&p, ctx, 1);
    call(&p);
    for (int i = 0; i < TENSORS; i++)
        p.t[i].device.device_id = 7;
    EXPECT(tg_rms_norm_forward(ctx, &(tg_rms_norm_forward_args){.x = &p.t[X], .y = &p.t[Y]}) ==
                   TG_EINVAL &&
               strstr(tg_last_error(), "card 7") && strstr(tg_last_error(), "one context a card"),
           "%s", tg_last_error());
    EXPECT(!tg_alloc(ctx, (size_t)1 << 50) && strstr(tg_last_error(), "no memory"), "%s",
           tg_last_error());
    EXPECT(tg_sync(ctx) == TG_OK, "%s", tg_last_error());
    drop(&p);
    tg_ctx_destroy(ctx);
}

int main(void)
{
    tg_ctx *ctx = new_context();
    if (tg_ctx_set_device(ctx, "cuda") != TG_OK || !load_driver()) {
        printf("not tested: %s\n", tg_last_error());
        return 77;
    }
    tg_ctx_destroy(ctx);
    check_indices();
    check_graph();
    check_streams();
    check_cards();
    return report();
}
