/* tools/tigon/limits/caches.c - memory as its threads will use it, and caches full
 * of something else. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "limits.h"

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
    char *data; /* on a device: of [rows, rows], followed by a row that they are summed up in */
    int64_t bytes, rows;
};

int is_apart(const tg_ctx *ctx)
{
    return tg_ctx_device_type(ctx) != TG_DEVICE_CPU;
}

/* More than any device's caches hold. They are filled by reading: what was written would have to
 * leave them while something else is timed. */
static evictor *device_evictor(evictor *e)
{
    e->rows = 8192;
    e->bytes = e->rows * e->rows * 4;
    e->data = device_matrix(e->ctx, TG_F32, e->rows * (e->rows + 1));
    if (e->data)
        return e;
    free(e);
    return NULL;
}

static void read_all(const evictor *e)
{
    const int64_t shape[] = {e->rows, e->rows};
    tg_tensor x = tg_tensor_of(e->data, TG_F32, 2, shape);
    tg_tensor y = tg_tensor_of(e->data + e->bytes, TG_F32, 1, shape);
    x.device.device_type = y.device.device_type = tg_ctx_device_type(e->ctx);
    tg_sum_rows_forward(e->ctx,
                        &(tg_sum_rows_forward_args){.x = &x, .y = &y, .scale = TG_VALUE(1)});
}

evictor *evictor_new(tg_ctx *ctx)
{
    evictor *e = calloc(1, sizeof *e);
    if (!e)
        return NULL;
    e->ctx = ctx;
    if (is_apart(ctx))
        return device_evictor(e);
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
    if (is_apart(e->ctx)) {
        read_all(e);
        return;
    }
    const int64_t threads = tg_ctx_threads(e->ctx);
    tg_parallel_for(e->ctx, e->bytes, (e->bytes + threads - 1) / threads, rewrite, e);
}

void evictor_free(evictor *e)
{
    if (e && is_apart(e->ctx))
        tg_free(e->ctx, e->data);
    else if (e)
        free(e->data);
    free(e);
}
