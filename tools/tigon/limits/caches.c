/* tools/tigon/limits/caches.c - the clock, memory as its threads will use it, and caches full of something else. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "limits.h"

static struct {
    clockid_t id;
    double share;
} the_clock = {CLOCK_MONOTONIC, 1};

void use_cpu_clock(int threads)
{
    the_clock.id = CLOCK_PROCESS_CPUTIME_ID;
    the_clock.share = 1.0 / threads;
}

double seconds(void)
{
    struct timespec t;
    clock_gettime(the_clock.id, &t);
    return ((double)t.tv_sec + 1e-9 * (double)t.tv_nsec) * the_clock.share;
}

/* ---- memory ---- */

enum { PAGE = 4096 };

typedef struct touch_args {
    char *data;
} touch_args;

static void touch(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    memset(((touch_args *)arg)->data + begin, 1, (size_t)(end - begin));
}

char *touched(tg_ctx *ctx, int64_t bytes)
{
    const int64_t size = (bytes + PAGE - 1) / PAGE * PAGE + PAGE;
    touch_args a = {aligned_alloc(PAGE, (size_t)size)};
    if (a.data) {
        const int64_t threads = tg_ctx_threads(ctx);
        tg_parallel_for(ctx, size, (size + threads - 1) / threads, touch, &a);
    }
    return a.data;
}

/* ---- caches ---- */

int64_t cache_bytes(void)
{
    static const int names[] = {
#ifdef _SC_LEVEL3_CACHE_SIZE
        _SC_LEVEL3_CACHE_SIZE,
        _SC_LEVEL2_CACHE_SIZE,
#endif
    };
    int64_t most = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const int64_t size = sysconf(names[i]);
        most = size > most ? size : most;
    }
    return most > 0 ? most : 32 << 20;
}

struct evictor {
    tg_ctx *ctx;
    char *data;
    int64_t bytes;
};

evictor *evictor_new(tg_ctx *ctx)
{
    evictor *e = calloc(1, sizeof *e);
    if (!e)
        return NULL;
    e->ctx = ctx;
    e->bytes = cache_bytes() * 5 / 4 + (16 << 20);
    e->data = touched(ctx, e->bytes);
    if (!e->data) {
        free(e);
        return NULL;
    }
    return e;
}

static void rewrite(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const evictor *e = arg;
    for (int64_t i = begin; i < end; i++)
        e->data[i]++;
}

void evictor_run(evictor *e)
{
    const int64_t threads = tg_ctx_threads(e->ctx);
    tg_parallel_for(e->ctx, e->bytes, (e->bytes + threads - 1) / threads, rewrite, e);
}

void evictor_free(evictor *e)
{
    if (e)
        free(e->data);
    free(e);
}
