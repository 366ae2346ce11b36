/* A program on a device with memory of its own: tg_alloc, tg_copy, tg_sync, tg_free, operators
 * between them, and what only the device can find wrong.
 *   device_memory libtoy.so */
#include <math.h>
#include <signal.h>
#include <stdalign.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../common/test.h"

enum { R = 5, N = 37, V = 11 };

static tg_ctx *toy_context(void)
{
    tg_ctx *ctx = new_context();
    EXPECT(tg_ctx_set_device(ctx, "toy") == TG_OK, "%s", tg_last_error());
    return ctx;
}

/* A tensor in device memory with these bytes. The context's stream brings them there: the
 * host's copy must last. */
static tg_tensor put(tg_ctx *ctx, const void *host, tg_type type, int ndim, const int64_t *shape)
{
    tg_tensor t = tg_tensor_of(NULL, type, ndim, shape);
    const size_t bytes = (size_t)tg_numel(&t) * tg_type_size(type);
    t.device.device_type = tg_ctx_device_type(ctx);
    t.data = tg_alloc(ctx, bytes);
    EXPECT(t.data && (uintptr_t)t.data % 64 == 0, "%p: %s", t.data, tg_last_error());
    EXPECT(tg_copy(ctx, t.data, tg_ctx_device_type(ctx), host, TG_DEVICE_CPU, bytes) == TG_OK, "%s",
           tg_last_error());
    return t;
}

static void get(tg_ctx *ctx, void *host, const tg_tensor *t)
{
    const size_t bytes = (size_t)tg_numel(t) * tg_type_size(tg_type_of(t));
    EXPECT(tg_copy(ctx, host, TG_DEVICE_CPU, t->data, tg_ctx_device_type(ctx), bytes) == TG_OK,
           "%s", tg_last_error());
}

static void expect_sync(tg_ctx *ctx)
{
    EXPECT(tg_sync(ctx) == TG_OK, "%s", tg_last_error());
}

static void fill(float *x, int n)
{
    for (int i = 0; i < n; i++)
        x[i] = (float)((i * 37 + 11) % 23) / 8 - 1;
}

static int differ(const float *a, const float *b, int n)
{
    for (int i = 0; i < n; i++)
        if (!(fabsf(a[i] - b[i]) <= 1e-5f))
            return 1;
    return 0;
}

/* The same calls do for the CPU: the C library's memory. */
static void check_copies(tg_ctx *ctx)
{
    const int64_t shape[] = {R, N};
    float x[R * N], y[R * N] = {0};
    fill(x, R * N);
    tg_tensor a = put(ctx, x, TG_F32, 2, shape), b = put(ctx, y, TG_F32, 2, shape);
    const int there = tg_ctx_device_type(ctx);
    EXPECT(tg_copy(ctx, b.data, there, a.data, there, sizeof x) == TG_OK, "%s", tg_last_error());
    get(ctx, y, &b);
    expect_sync(ctx);
    EXPECT(!memcmp(x, y, sizeof x), "what was copied is not what comes back");
    EXPECT(tg_copy(ctx, NULL, there, a.data, there, 0) == TG_OK, "%s", tg_last_error());
    EXPECT(tg_copy(ctx, NULL, there, a.data, there, 4) == TG_EINVAL &&
               strstr(tg_last_error(), "dst is NULL"),
           "%s", tg_last_error());
    EXPECT(tg_copy(ctx, b.data, there, a.data, TG_DEVICE_CUDA, 4) == TG_EINVAL &&
               strstr(tg_last_error(), "src_device_type is 2 (cuda), expected 1 (cpu) or"),
           "%s", tg_last_error());
    EXPECT(!tg_alloc(ctx, SIZE_MAX / 2 - 4096) && tg_last_error()[0], "memory without end");
    void *nothing = tg_alloc(ctx, 0);
    EXPECT(nothing, "%s", tg_last_error());
    tg_free(ctx, nothing);
    tg_free(ctx, NULL);
    tg_free(ctx, a.data);
    tg_free(ctx, b.data);
    expect_sync(ctx);
}

static void check_no_context(void)
{
    char byte = 0;
    EXPECT(!tg_alloc(NULL, 1) && strstr(tg_last_error(), "tg_alloc: ctx is NULL"), "%s",
           tg_last_error());
    EXPECT(tg_copy(NULL, &byte, TG_DEVICE_CPU, &byte, TG_DEVICE_CPU, 1) == TG_EINVAL, "%s",
           tg_last_error());
    EXPECT(tg_sync(NULL) == TG_EINVAL, "%s", tg_last_error());
    EXPECT(tg_time_begin(NULL) == TG_EINVAL && tg_time_end(NULL, NULL) == TG_EINVAL, "%s",
           tg_last_error());
    tg_free(NULL, &byte);
}

/* A device need not have it; what it is given is looked at before. */
static void check_move(tg_ctx *ctx)
{
    alignas(16) char bytes[32] = {0};
    const void *from = bytes, *odd = bytes + 1;
    void *to = bytes + 16;
    EXPECT(tg_move(ctx, &from, 1, &to, 1, 16) == TG_EUNSUPPORTED &&
               strstr(tg_last_error(), tg_ctx_device(ctx)),
           "%s", tg_last_error());
    EXPECT(tg_move(ctx, &odd, 1, &to, 1, 16) == TG_EINVAL, "%s", tg_last_error());
    EXPECT(tg_move(ctx, &from, 1, &to, 1, 8) == TG_EINVAL, "%s", tg_last_error());
    EXPECT(tg_move(ctx, &from, TG_MOST_MOVED + 1, &to, 1, 16) == TG_EINVAL, "%s", tg_last_error());
    EXPECT(tg_move(NULL, &from, 1, &to, 1, 16) == TG_EINVAL, "%s", tg_last_error());
}

/* Time is told once for each beginning: the toy's clock is 1 ms a call, the host's passes. */
static void check_time(tg_ctx *ctx)
{
    enum { COPIES = 3 };
    const int type = tg_ctx_device_type(ctx);
    double seconds = -1;
    int64_t number = 7;
    void *there = tg_alloc(ctx, sizeof number);
    EXPECT(tg_time_end(ctx, &seconds) == TG_EINVAL && strstr(tg_last_error(), "tg_time_begin"),
           "%s", tg_last_error());
    EXPECT(tg_time_begin(ctx) == TG_OK, "%s", tg_last_error());
    EXPECT(tg_time_end(ctx, NULL) == TG_EINVAL && strstr(tg_last_error(), "seconds is NULL"), "%s",
           tg_last_error());
    for (int i = 0; i < COPIES; i++)
        EXPECT(tg_copy(ctx, there, type, &number, TG_DEVICE_CPU, sizeof number) == TG_OK, "%s",
               tg_last_error());
    EXPECT(tg_time_end(ctx, &seconds) == TG_OK, "%s", tg_last_error());
    EXPECT(type == TG_DEVICE_EXT ? fabs(seconds - COPIES * 1e-3) < 1e-9 : seconds > 0, "%g seconds",
           seconds);
    EXPECT(tg_time_end(ctx, &seconds) == TG_EINVAL, "a second end is taken");
    tg_free(ctx, there);
}

/* The host that follows a device pointer crashes: nothing here has done so. */
static void check_out_of_reach(tg_ctx *ctx)
{
    volatile char *p = tg_alloc(ctx, 1);
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        _exit(*p == 1 ? 1 : 2);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV,
           "the host reads the device's memory");
    tg_free(ctx, (void *)p);
}

static void check_operator(tg_ctx *ctx, tg_ctx *cpu)
{
    int64_t shape[] = {R, N};
    const int64_t n = N;
    float x[R * N], w[N], y[R * N], expected[R * N];
    fill(x, R * N);
    fill(w, N);
    tg_tensor hx = tg_tensor_of(x, TG_F32, 2, shape), hw = tg_tensor_of(w, TG_F32, 1, &n),
              hy = tg_tensor_of(expected, TG_F32, 2, shape);
    EXPECT(tg_rms_norm_forward(
               cpu, &(tg_rms_norm_forward_args){.x = &hx, .weight = &hw, .y = &hy}) == TG_OK,
           "%s", tg_last_error());
    tg_tensor dx = put(ctx, x, TG_F32, 2, shape), dw = put(ctx, w, TG_F32, 1, &n),
              dy = put(ctx, y, TG_F32, 2, shape);
    const tg_tensor result = dy;
    const int64_t own[] = {R, N};
    tg_rms_norm_forward_args args = {.x = &dx, .weight = &dw, .y = &dy};
    for (int i = 0; i < 2; i++) /* of a new form, and of a known one */
        EXPECT(tg_rms_norm_forward(ctx, &args) == TG_OK, "%s", tg_last_error());
    EXPECT(!strcmp(tg_ctx_last_impl(ctx), "toy/rms_norm_forward"), "%s", tg_ctx_last_impl(ctx));
    void *const in = dx.data; /* the call has seen its arguments: they may go */
    memset(&dx, 0, sizeof dx);
    memset(shape, 0, sizeof shape);
    tg_tensor back = result;
    back.shape = (int64_t *)own;
    get(ctx, y, &back);
    expect_sync(ctx);
    EXPECT(!differ(y, expected, R * N), "the device's result differs from the CPU's");
    EXPECT(tg_rms_norm_forward(cpu, &(tg_rms_norm_forward_args){.x = &back, .y = &back}) ==
                   TG_EINVAL &&
               strstr(tg_last_error(), "the context's device is cpu"),
           "%s", tg_last_error());
    tg_free(ctx, in);
    tg_free(ctx, dw.data);
    tg_free(ctx, dy.data);
}

typedef struct loss_problem {
    float logits[R * V], loss[R], dlogits[R * V];
    int64_t target[R];
    tg_tensor x, y, l, d;
} loss_problem;

static const int64_t by_class[] = {R, V}, by_row[] = {R};

static void put_loss(tg_ctx *ctx, loss_problem *p)
{
    fill(p->logits, R * V);
    for (int i = 0; i < R; i++) {
        p->target[i] = i == 3 ? 99 : i;
        p->loss[i] = -7;
    }
    memset(p->dlogits, 0, sizeof p->dlogits);
    p->x = put(ctx, p->logits, TG_F32, 2, by_class);
    p->y = put(ctx, p->target, TG_I64, 1, by_row);
    p->l = put(ctx, p->loss, TG_F32, 1, by_row);
    p->d = put(ctx, p->dlogits, TG_F32, 2, by_class);
}

static void free_loss(tg_ctx *ctx, loss_problem *p)
{
    void *const memory[] = {p->x.data, p->y.data, p->l.data, p->d.data};
    for (int i = 0; i < 4; i++)
        tg_free(ctx, memory[i]);
}

static tg_status call_loss(tg_ctx *ctx, loss_problem *p)
{
    return tg_cross_entropy_forward(ctx, &(tg_cross_entropy_forward_args){.logits = &p->x,
                                                                          .target = &p->y,
                                                                          .loss = &p->l,
                                                                          .dlogits = &p->d,
                                                                          .reduction = TG_NONE});
}

/* A target out of range is the kernel's to find: its row stays as it was, tg_sync() tells,
 * other contexts do not. */
static void check_indices(tg_ctx *ctx, tg_ctx *other)
{
    loss_problem p;
    put_loss(ctx, &p);
    for (int i = 0; i < 3; i++)
        EXPECT(call_loss(ctx, &p) == TG_OK, "%s", tg_last_error());
    expect_sync(other);
    EXPECT(tg_sync(ctx) == TG_EINVAL &&
               strstr(tg_last_error(),
                      "cross_entropy_forward: target[3] is 99, out of bounds: expected in [0, 11)"),
           "%s", tg_last_error());
    expect_sync(ctx); /* told once */
    get(ctx, p.loss, &p.l);
    get(ctx, p.dlogits, &p.d);
    expect_sync(ctx);
    for (int i = 0; i < R; i++)
        EXPECT(i == 3 ? p.loss[i] == -7 : p.loss[i] > 0, "loss[%d] is %g", i, p.loss[i]);
    for (int j = 0; j < V; j++)
        EXPECT(p.dlogits[3 * V + j] == 0 && p.dlogits[j] != 0, "a gradient at %d", j);
    free_loss(ctx, &p);

    const int64_t table[] = {V, N}, wide[] = {R, N};
    static float w[V * N], y[R * N];
    const int64_t indices[R] = {0, 1, -1, 3, V};
    fill(w, V * N);
    y[2 * N] = y[4 * N] = -7;
    tg_tensor tw = put(ctx, w, TG_F32, 2, table), ti = put(ctx, indices, TG_I64, 1, by_row),
              ty = put(ctx, y, TG_F32, 2, wide);
    EXPECT(tg_embedding_forward(
               ctx, &(tg_embedding_forward_args){.weight = &tw, .indices = &ti, .y = &ty}) == TG_OK,
           "%s", tg_last_error());
    get(ctx, y, &ty);
    EXPECT(tg_sync(ctx) == TG_EINVAL &&
               strstr(tg_last_error(), "embedding_forward: indices[2] is -1"),
           "%s", tg_last_error());
    EXPECT(y[2 * N] == -7 && y[4 * N] == -7 && !memcmp(y + 3 * N, w + 3 * N, N * 4),
           "rows of wrong indices are written, or others are not");
    tg_free(ctx, tw.data);
    tg_free(ctx, ti.data);
    tg_free(ctx, ty.data);
}

/* An operator that the device lacks; the host's own check finds what is wrong with indices then. */
static void check_host(tg_ctx *ctx, tg_ctx *cpu)
{
    const int64_t shape[] = {R, N};
    float g[R * N], u[R * N], y[R * N] = {0}, expected[R * N];
    fill(g, R * N);
    for (int i = 0; i < R * N; i++)
        u[i] = 1 - g[i];
    tg_tensor hg = tg_tensor_of(g, TG_F32, 2, shape), hu = tg_tensor_of(u, TG_F32, 2, shape),
              hy = tg_tensor_of(expected, TG_F32, 2, shape);
    tg_tensor dg = put(ctx, g, TG_F32, 2, shape), du = put(ctx, u, TG_F32, 2, shape),
              dy = put(ctx, y, TG_F32, 2, shape);
    const tg_swiglu_forward_args there = {.gate = &dg, .up = &du, .y = &dy};
    EXPECT(tg_swiglu_forward(cpu, &(tg_swiglu_forward_args){.gate = &hg, .up = &hu, .y = &hy}) ==
               TG_OK,
           "%s", tg_last_error());
    EXPECT(tg_swiglu_forward(ctx, &there) == TG_EUNSUPPORTED &&
               strstr(tg_last_error(), "TIGON_FALLBACK=host"),
           "%s", tg_last_error());
    tg_ctx_set_fallback(ctx, TG_FALLBACK_HOST);
    EXPECT(tg_swiglu_forward(ctx, &there) == TG_OK, "%s", tg_last_error());
    tg_ctx_set_fallback(ctx, TG_FALLBACK_ERROR);
    get(ctx, y, &dy);
    expect_sync(ctx);
    EXPECT(!memcmp(y, expected, sizeof y), "the host's result differs");
    tg_free(ctx, dg.data);
    tg_free(ctx, du.data);
    tg_free(ctx, dy.data);
}

/* Tensors that lie between each other: neighbouring columns of one buffer, overwritten. */
static void check_columns_on_host(tg_ctx *ctx, tg_ctx *cpu)
{
    const int64_t shape[] = {R, N}, both[] = {R, 2 * N};
    float g[R * 2 * N], back[R * 2 * N], dy[R * N];
    fill(g, R * 2 * N);
    fill(dy, R * N);
    tg_tensor hg = tg_tensor_of(back, TG_F32, 2, both), hdy = tg_tensor_of(dy, TG_F32, 2, shape),
              there = put(ctx, g, TG_F32, 2, both), ddy = put(ctx, dy, TG_F32, 2, shape);
    int64_t shapes[2][2], strides[2][2];
    tg_ctx_set_fallback(ctx, TG_FALLBACK_HOST);
    memcpy(back, g, sizeof g);
    for (int i = 0; i < 2; i++) {
        const tg_tensor *whole = i ? &hg : &there;
        tg_tensor gate = tg_tensor_slice(whole, 0, N, shapes[0], strides[0]),
                  up = tg_tensor_slice(whole, N, N, shapes[1], strides[1]);
        EXPECT(tg_swiglu_backward(i ? cpu : ctx, &(tg_swiglu_backward_args){.dy = i ? &hdy : &ddy,
                                                                            .gate = &gate,
                                                                            .up = &up,
                                                                            .dgate = &gate,
                                                                            .dup = &up}) == TG_OK,
               "%s", tg_last_error());
    }
    tg_ctx_set_fallback(ctx, TG_FALLBACK_ERROR);
    get(ctx, g, &there);
    expect_sync(ctx);
    EXPECT(!memcmp(g, back, sizeof g), "neighbouring columns come back wrong");
    tg_free(ctx, there.data);
    tg_free(ctx, ddy.data);
}

/* An embedding program's own allocator of device memory. */
typedef struct counter {
    tg_ctx *ctx;
    int taken, given;
} counter;

static void *count_taken(void *user, size_t bytes)
{
    counter *c = user;
    c->taken++;
    return tg_alloc(c->ctx, bytes);
}

static void count_given(void *user, void *ptr)
{
    counter *c = user;
    c->given++;
    tg_free(c->ctx, ptr);
}

static void check_allocator(tg_ctx *ctx, tg_ctx *cpu, const tg_rms_norm_backward_args *args)
{
    counter c = {.ctx = ctx};
    EXPECT(tg_ctx_set_device_allocator(cpu, count_taken, count_given, &c) == TG_EUNSUPPORTED, "%s",
           tg_last_error());
    EXPECT(tg_ctx_set_device_allocator(ctx, count_taken, NULL, &c) == TG_EINVAL, "%s",
           tg_last_error());
    EXPECT(tg_ctx_set_device_allocator(ctx, count_taken, count_given, &c) == TG_OK, "%s",
           tg_last_error());
    for (int i = 0; i < 2; i++)
        EXPECT(tg_rms_norm_backward(ctx, args) == TG_OK, "%s", tg_last_error());
    EXPECT(c.taken == 1 && c.given == 0, "%d taken, %d given", c.taken, c.given);
    EXPECT(tg_ctx_set_device_allocator(ctx, NULL, NULL, NULL) == TG_OK, "%s", tg_last_error());
    EXPECT(tg_rms_norm_backward(ctx, args) == TG_OK, "%s", tg_last_error());
    EXPECT(c.taken == 1 && c.given == 1, "%d taken, %d given", c.taken, c.given);
}

/* Scratch memory of the device is kept between calls and counted; another
 * stream gets none of it. */
static void check_workspace(tg_ctx *ctx, tg_ctx *cpu)
{
    const int64_t shape[] = {R, N}, rows[] = {R}, n[] = {N};
    float x[R * N], r[R], w[N], zero[R * N] = {0};
    fill(x, R * N);
    fill(r, R);
    fill(w, N);
    tg_tensor dy = put(ctx, x, TG_F32, 2, shape), dx = put(ctx, zero, TG_F32, 2, shape),
              rstd = put(ctx, r, TG_F32, 1, rows), weight = put(ctx, w, TG_F32, 1, n),
              dw = put(ctx, w, TG_F32, 1, n);
    const tg_rms_norm_backward_args args = {
        .dy = &dy, .x = &dy, .weight = &weight, .rstd = &rstd, .dx = &dx, .dweight = &dw};
    tg_ctx_workspace_trim(ctx);
    tg_ctx_workspace_reset_peak(ctx);
    for (int i = 0; i < 2; i++)
        EXPECT(tg_rms_norm_backward(ctx, &args) == TG_OK, "%s", tg_last_error());
    const size_t peak = tg_ctx_workspace_peak(ctx);
    EXPECT(peak >= N * sizeof(double) && peak < 2 * N * sizeof(double), "%zu bytes at once", peak);
    int stream;
    tg_ctx_set_stream(ctx, &stream);
    EXPECT(tg_rms_norm_backward(ctx, &args) == TG_OK, "%s", tg_last_error());
    tg_ctx_set_stream(ctx, NULL);
    check_allocator(ctx, cpu, &args);
    expect_sync(ctx);
    tg_free(ctx, dy.data);
    tg_free(ctx, dx.data);
    tg_free(ctx, rstd.data);
    tg_free(ctx, weight.data);
    tg_free(ctx, dw.data);
}

/* A context that goes takes its errors with it. */
static void check_end(void)
{
    tg_ctx *ctx = toy_context();
    loss_problem p;
    put_loss(ctx, &p);
    EXPECT(call_loss(ctx, &p) == TG_OK, "%s", tg_last_error());
    free_loss(ctx, &p);
    tg_ctx_destroy(ctx);
    ctx = toy_context(); /* at the same address, often */
    expect_sync(ctx);
    EXPECT(tg_ctx_set_device(ctx, "cpu") == TG_OK && tg_ctx_device_type(ctx) == TG_DEVICE_CPU, "%s",
           tg_last_error());
    check_copies(ctx);
    tg_ctx_destroy(ctx);
}

int main(int argc, char **argv)
{
    if (argc < 2 || tg_backend_load(argv[1]) != TG_OK) {
        printf("%s\n", tg_last_error());
        return 1;
    }
    tg_ctx *cpu = new_context(), *one = toy_context(), *two = toy_context();
    EXPECT(tg_ctx_set_device(cpu, "cpu") == TG_OK, "%s", tg_last_error());
    EXPECT(tg_ctx_device_type(one) == TG_DEVICE_EXT, "%d", tg_ctx_device_type(one));
    check_no_context();
    check_time(cpu);
    check_time(one);
    check_move(cpu);
    check_move(one);
    check_copies(cpu);
    check_copies(one);
    check_out_of_reach(one);
    check_operator(one, cpu);
    check_indices(one, two);
    check_operator(two, cpu);
    check_indices(two, one);
    check_host(two, cpu);
    check_columns_on_host(one, cpu);
    check_workspace(one, cpu);
    check_end();
    tg_ctx_destroy(one);
    tg_ctx_destroy(two);
    tg_ctx_destroy(cpu);
    return report();
}
