/* Streams of a device: contexts on two of them do not wait for each other, a composition
 * (fused_linear_cross_entropy) is put on its context's stream whole, so that it can be recorded and
 * run again, and events tell how far a stream is.
 *   device_streams libtoy.so */
#include <dlfcn.h>
#include <math.h>

#include "../common/test.h"

enum { BT = 7, H = 5, V = 11, CHUNK_BYTES = 3 * V * 4 /* of three rows */ };

static void (*toy_hold)(const void *stream);

/* What a call reads and writes: on the host, and the same on a device. */
enum { X, WEIGHT, BIAS, TARGET, LOSS, DX, DWEIGHT, DBIAS, TENSORS };

typedef struct problem {
    tg_ctx *ctx;
    float f[TENSORS][V * H + BT * V];
    int64_t target[BT];
    tg_tensor t[TENSORS];
} problem;

static const int64_t shape[TENSORS][2] = {{BT, H}, {V, H}, {V}, {BT}, {1}, {BT, H}, {V, H}, {V}};
static const int ndim[TENSORS] = {2, 2, 1, 1, 1, 2, 2, 1};

static void *host_of(problem *p, int i)
{
    return i == TARGET ? (void *)p->target : (void *)p->f[i];
}

static size_t bytes_of(const problem *p, int i)
{
    return (size_t)tg_numel(&p->t[i]) * tg_type_size(tg_type_of(&p->t[i]));
}

static void copy(problem *p, int i, int to_device)
{
    const int there = tg_ctx_device_type(p->ctx);
    void *host = host_of(p, i), *data = p->t[i].data;
    const tg_status status =
        to_device ? tg_copy(p->ctx, data, there, host, TG_DEVICE_CPU, bytes_of(p, i))
                  : tg_copy(p->ctx, host, TG_DEVICE_CPU, data, there, bytes_of(p, i));
    EXPECT(status == TG_OK, "%s", tg_last_error());
}

static void fill(problem *p, int seed)
{
    for (int i = 0; i < TENSORS; i++)
        for (int k = 0; k < tg_numel(&p->t[i]); k++)
            p->f[i][k] = (float)((k * 37 + i * 11 + seed) % 23) / 8 - 1;
    for (int k = 0; k < BT; k++)
        p->target[k] = k == 2 ? -100 : (k * 5 + seed) % V;
}

static void make(problem *p, tg_ctx *ctx)
{
    p->ctx = ctx;
    for (int i = 0; i < TENSORS; i++) {
        p->t[i] = tg_tensor_of(NULL, i == TARGET ? TG_I64 : TG_F32, ndim[i], shape[i]);
        p->t[i].device.device_type = tg_ctx_device_type(ctx);
        p->t[i].data = tg_alloc(ctx, bytes_of(p, i));
        EXPECT(p->t[i].data, "%s", tg_last_error());
    }
}

static void release(problem *p)
{
    for (int i = 0; i < TENSORS; i++)
        tg_free(p->ctx, p->t[i].data);
}

static void call(problem *p)
{
    tg_tensor *t = p->t;
    const tg_fused_linear_cross_entropy_forward_args args = {.x = &t[X],
                                                             .weight = &t[WEIGHT],
                                                             .bias = &t[BIAS],
                                                             .target = &t[TARGET],
                                                             .loss = &t[LOSS],
                                                             .dx = &t[DX],
                                                             .dweight = &t[DWEIGHT],
                                                             .dbias = &t[DBIAS],
                                                             .chunk_bytes = CHUNK_BYTES};
    EXPECT(tg_fused_linear_cross_entropy_forward(p->ctx, &args) == TG_OK, "%s", tg_last_error());
}

static void send(problem *p)
{
    for (int i = 0; i < TENSORS; i++)
        copy(p, i, 1);
}

/* The device's results are those of the CPU. */
static void expect_right(problem *p, tg_ctx *cpu, int seed)
{
    static problem want;
    make(&want, cpu);
    fill(&want, seed);
    send(&want);
    call(&want);
    for (int i = LOSS; i < TENSORS; i++) {
        copy(p, i, 0);
        copy(&want, i, 0);
    }
    EXPECT(tg_sync(p->ctx) == TG_OK, "%s", tg_last_error());
    for (int i = LOSS; i < TENSORS; i++)
        for (int k = 0; k < tg_numel(&p->t[i]); k++)
            EXPECT(fabsf(p->f[i][k] - want.f[i][k]) <= 1e-5f, "tensor %d [%d] is %g, expected %g",
                   i, k, p->f[i][k], want.f[i][k]);
    release(&want);
}

static tg_ctx *toy_context(void *stream)
{
    tg_ctx *ctx = new_context();
    EXPECT(tg_ctx_set_device(ctx, "toy") == TG_OK && tg_ctx_set_stream(ctx, stream) == TG_OK, "%s",
           tg_last_error());
    return ctx;
}

/* Nothing of another stream is waited for. */
static void check_apart(void)
{
    int one, two;
    static problem slow, fast;
    tg_ctx *cpu = new_context();
    EXPECT(tg_ctx_set_device(cpu, "cpu") == TG_OK, "%s", tg_last_error());
    make(&slow, toy_context(&one));
    make(&fast, toy_context(&two));
    fill(&slow, 1);
    fill(&fast, 2);
    toy_hold(&one);
    send(&slow);
    call(&slow);
    send(&fast);
    call(&fast);
    expect_right(&fast, cpu, 2); /* it waits for its own stream, or for ever */
    toy_hold(NULL);
    expect_right(&slow, cpu, 1);
    release(&slow);
    release(&fast);
    tg_ctx_destroy(slow.ctx);
    tg_ctx_destroy(fast.ctx);
    tg_ctx_destroy(cpu);
}

/* What cannot be recorded is refused, in words. */
static void refuses_what_waits(tg_ctx *ctx)
{
    tg_event *event = NULL;
    double seconds;
    EXPECT(tg_sync(ctx) == TG_EINVAL && strstr(tg_last_error(), "tg_sync: cannot be recorded"),
           "%s", tg_last_error());
    EXPECT(!tg_alloc(ctx, 1) && strstr(tg_last_error(), "tg_alloc: cannot be recorded"), "%s",
           tg_last_error());
    EXPECT(!tg_alloc_host(ctx, 1), "memory is taken while calls are recorded");
    EXPECT(tg_event_record(ctx, &event) == TG_EINVAL && !event, "an event is recorded");
    EXPECT(tg_time_begin(ctx) == TG_EINVAL && tg_time_end(ctx, &seconds) == TG_EINVAL,
           "time is taken while calls are recorded");
    EXPECT(tg_graph_begin(ctx) == TG_EINVAL, "a recording within a recording");
    EXPECT(tg_ctx_set_stream(ctx, &seconds) == TG_EINVAL, "the stream changes");
}

/* Memory that the call needs is there from a call before, and stays, whatever is trimmed. */
static void check_recorded(void)
{
    int stream;
    static problem p;
    tg_graph *graph = NULL;
    tg_ctx *cpu = new_context();
    EXPECT(tg_ctx_set_device(cpu, "cpu") == TG_OK, "%s", tg_last_error());
    EXPECT(tg_graph_begin(cpu) == TG_EUNSUPPORTED && strstr(tg_last_error(), "device cpu"), "%s",
           tg_last_error());
    make(&p, toy_context(&stream));
    fill(&p, 3);
    send(&p);
    EXPECT(tg_graph_begin(p.ctx) == TG_OK, "%s", tg_last_error());
    const tg_fused_linear_cross_entropy_forward_args args = {
        .x = &p.t[X], .weight = &p.t[WEIGHT], .target = &p.t[TARGET], .loss = &p.t[LOSS]};
    EXPECT(tg_fused_linear_cross_entropy_forward(p.ctx, &args) == TG_ENOMEM &&
               strstr(tg_last_error(), "make them once before"),
           "%s", tg_last_error());
    EXPECT(tg_graph_end(p.ctx, NULL) == TG_OK, "%s", tg_last_error());
    call(&p);
    EXPECT(tg_sync(p.ctx) == TG_OK, "%s", tg_last_error());
    EXPECT(tg_graph_begin(p.ctx) == TG_OK, "%s", tg_last_error());
    EXPECT(tg_ctx_stream(p.ctx) != &stream, "the stream is not the one that is recorded");
    call(&p);
    refuses_what_waits(p.ctx);
    EXPECT(tg_graph_end(p.ctx, &graph) == TG_OK, "%s", tg_last_error());
    EXPECT(tg_ctx_stream(p.ctx) == &stream, "the stream is still the one that was recorded");
    EXPECT(tg_graph_end(p.ctx, &graph) == TG_EINVAL, "an end without a begin");
    tg_ctx_workspace_trim(p.ctx);
    for (int seed = 4; seed < 7; seed++) {
        fill(&p, seed);
        send(&p);
        EXPECT(tg_graph_launch(p.ctx, graph) == TG_OK, "%s", tg_last_error());
        expect_right(&p, cpu, seed);
    }
    EXPECT(tg_ctx_set_stream(p.ctx, NULL) == TG_EINVAL, "the stream changes beside a graph");
    EXPECT(tg_ctx_set_device(p.ctx, "cpu") == TG_EINVAL && strstr(tg_last_error(), "has graphs"),
           "%s", tg_last_error());
    tg_graph_destroy(p.ctx, graph);
    EXPECT(tg_ctx_set_stream(p.ctx, NULL) == TG_OK, "%s", tg_last_error());
    EXPECT(tg_ctx_set_fallback(p.ctx, TG_FALLBACK_HOST) == TG_OK &&
               tg_graph_begin(p.ctx) == TG_EUNSUPPORTED && strstr(tg_last_error(), "fall back"),
           "%s", tg_last_error());
    release(&p);
    tg_ctx_destroy(p.ctx);
    tg_ctx_destroy(cpu);
}

/* An event is waited for alone: what was put on the stream behind it is held, and would be
 * waited for for ever. */
static void check_events(void)
{
    int stream;
    static problem p;
    tg_event *event = NULL;
    make(&p, toy_context(&stream));
    fill(&p, 1);
    send(&p);
    EXPECT(tg_sync(p.ctx) == TG_OK, "%s", tg_last_error());
    p.f[X][0] = -99;
    copy(&p, X, 0);
    EXPECT(tg_event_record(p.ctx, &event) == TG_OK, "%s", tg_last_error());
    EXPECT(tg_event_wait(p.ctx, event) == TG_OK, "%s", tg_last_error());
    EXPECT(p.f[X][0] != -99, "the copy before the event has not ended");
    EXPECT(tg_event_record(p.ctx, &event) == TG_OK, "%s", tg_last_error());
    toy_hold(&stream);
    copy(&p, X, 1);
    EXPECT(tg_event_wait(p.ctx, event) == TG_OK, "%s", tg_last_error());
    toy_hold(NULL);
    tg_event_destroy(p.ctx, event);
    release(&p);
    tg_ctx_destroy(p.ctx);
}

int main(int argc, char **argv)
{
    if (argc < 2 || tg_backend_load(argv[1]) != TG_OK) {
        printf("%s\n", tg_last_error());
        return 1;
    }
    void *toy = dlopen(argv[1], RTLD_NOW);
    *(void **)&toy_hold = dlsym(toy, "toy_hold");
    check_apart();
    check_recorded();
    check_events();
    return report();
}
