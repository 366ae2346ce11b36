/* What a backend keeps for a context: found by every call, the context's own, and given back when
 * the context ends; a program may make contexts without end. */
#include <malloc.h>
#include <stddef.h>
#include <time.h>

#include "../common/test.h"

#include <tigon/backend.h>

static const tg_host *host;
static tg_backend mine, other, older;
static int made, left;

typedef struct state {
    tg_ctx *ctx;
    int calls;
} state;

static tg_status open_backend(const tg_host *services)
{
    host = services;
    return TG_OK;
}

static tg_status forward(tg_ctx *ctx, const tg_softmax_forward_args *args)
{
    state **s = (state **)host->slot(ctx, &mine);
    if (!*s) {
        *s = calloc(1, sizeof **s);
        if (!*s)
            return host->fail(TG_ENOMEM, "mine: no memory");
        (*s)->ctx = ctx;
        made++;
    }
    EXPECT((*s)->ctx == ctx, "the slot of another context");
    ((float *)args->y->data)[0] = (float)++(*s)->calls;
    return TG_OK;
}

static void leave(tg_ctx *ctx, void *kept)
{
    state *s = kept;
    EXPECT(s->ctx == ctx, "the slot of another context");
    free(s);
    left++;
}

static const tg_impl impls[] = {TG_IMPL(softmax_forward, "", 0, TG_TAKES_FLOATS, NULL, forward),
                                TG_IMPLS_END};

static tg_backend *fill(tg_backend *b, const char *vendor)
{
    *b = (tg_backend){TG_ABI,         sizeof *b,     vendor,
                      "cpu",          TG_DEVICE_CPU, .open = open_backend,
                      .impls = impls, .leave = leave};
    return b;
}

static float x[2], y[2];

static float call(tg_ctx *ctx)
{
    const int64_t shape[] = {1, 2};
    tg_tensor tx = tg_tensor_of(x, TG_F32, 2, shape), ty = tg_tensor_of(y, TG_F32, 2, shape);
    EXPECT(tg_softmax_forward(ctx, &(tg_softmax_forward_args){.x = &tx, .y = &ty}) == TG_OK, "%s",
           tg_last_error());
    return y[0];
}

static void each_context_has_its_own(void)
{
    tg_ctx *a = new_context(), *b = new_context(), *unused = new_context();
    EXPECT(call(a) == 1 && call(b) == 1 && call(a) == 2 && call(b) == 2, "%g", (double)y[0]);
    EXPECT(made == 2, "%d", made);
    EXPECT(tg_ctx_set_device(a, "cpu") == TG_OK && call(a) == 3, "a change of device took it away");
    void **of_mine = host->slot(a, &mine), **of_other = host->slot(a, &other);
    EXPECT(of_other && of_other != of_mine && !*of_other, "of another backend");
    EXPECT(host->slot(a, &mine) == of_mine, "it moved");
    const tg_backend copy = mine;
    EXPECT(!host->slot(a, &copy) && strstr(tg_last_error(), "not registered"), "%s",
           tg_last_error());
    tg_ctx_destroy(unused);
    EXPECT(left == 0, "left without having been there");
    tg_ctx_destroy(a);
    tg_ctx_destroy(b);
    EXPECT(left == 2, "%d", left);
}

/* Its table ends before `leave`: what it has there is no function. */
static void an_older_table_is_taken(void)
{
    static int kept;
    tg_ctx *ctx = new_context();
    *host->slot(ctx, &older) = &kept;
    tg_ctx_destroy(ctx);
    EXPECT(left == 2, "called what is behind the table");
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The shortest time of some batches of contexts, each with a call. */
static double time_of(int batches)
{
    enum { BATCH = 1000 };
    double shortest = 1e9;
    for (int i = 0; i < batches; i++) {
        const double begun = seconds();
        for (int k = 0; k < BATCH; k++) {
            tg_ctx *ctx = new_context();
            call(ctx);
            tg_ctx_destroy(ctx);
        }
        const double took = seconds() - begun;
        shortest = took < shortest ? took : shortest;
    }
    return shortest;
}

static void contexts_without_end(void)
{
    const double first = time_of(10);
    const struct mallinfo2 before = mallinfo2();
    time_of(80);
    const double last = time_of(10);
    const struct mallinfo2 after = mallinfo2();
    EXPECT(left == made && made == 100002, "%d made, %d left", made, left);
    EXPECT(last < 3 * first, "%g s for a thousand contexts, %g s at first", last, first);
    EXPECT(after.uordblks + after.hblkhd <= before.uordblks + before.hblkhd + 4096,
           "%zu bytes more", after.uordblks + after.hblkhd - before.uordblks - before.hblkhd);
}

int main(void)
{
    EXPECT(tg_backend_register(fill(&other, "other")) == TG_OK, "%s", tg_last_error());
    fill(&older, "older")->size = (uint32_t)offsetof(tg_backend, leave);
    EXPECT(tg_backend_register(&older) == TG_OK, "%s", tg_last_error());
    EXPECT(tg_backend_register(fill(&mine, "mine")) == TG_OK, "%s", tg_last_error());
    each_context_has_its_own();
    an_older_table_is_taken();
    contexts_without_end();
    return report();
}
