/* scratch.c - memory of the device that an operator needs between two launches: one block a context, kept and grown. */
#include <pthread.h>

#include "ascend.h"

enum { MOST_CONTEXTS = 64 };

typedef struct scratch {
    const tg_ctx *ctx;
    const ascend_runtime *runtime;
    void *stream; /* that its last user was launched on */
    void *memory;
    size_t bytes;
} scratch;

static scratch blocks[MOST_CONTEXTS];
static int next; /* to be given up when all are taken */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static scratch *block_of(const tg_ctx *ctx, const ascend_runtime *runtime)
{
    for (int i = 0; i < MOST_CONTEXTS; i++)
        if (blocks[i].ctx == ctx && blocks[i].runtime == runtime)
            return &blocks[i];
    for (int i = 0; i < MOST_CONTEXTS; i++)
        if (!blocks[i].ctx)
            return &blocks[i];
    next = (next + 1) % MOST_CONTEXTS;
    return &blocks[next];
}

static tg_status give_up(scratch *b)
{
    if (b->memory) {
        ASCEND_TRY(b->runtime->sync(b->stream)); /* it may be in use */
        b->runtime->free(b->memory);
    }
    *b = (scratch){.ctx = NULL};
    return TG_OK;
}

static tg_status take(tg_ctx *ctx, const ascend_runtime *runtime, size_t bytes, void **memory)
{
    void *stream = ascend_host->stream(ctx);
    scratch *b = block_of(ctx, runtime);
    if (b->ctx != ctx || b->runtime != runtime || b->stream != stream || b->bytes < bytes) {
        ASCEND_TRY(give_up(b));
        void *fresh = runtime->alloc(bytes);
        if (!fresh)
            return TG_ENOMEM;
        *b = (scratch){ctx, runtime, stream, fresh, bytes};
    }
    *memory = b->memory;
    return TG_OK;
}

tg_status ascend_scratch(tg_ctx *ctx, const ascend_runtime *runtime, size_t bytes, void **memory)
{
    pthread_mutex_lock(&lock);
    const tg_status status = take(ctx, runtime, bytes, memory);
    pthread_mutex_unlock(&lock);
    return status;
}

void ascend_scratch_close(const ascend_runtime *runtime)
{
    for (int i = 0; i < MOST_CONTEXTS; i++)
        if (blocks[i].runtime == runtime)
            give_up(&blocks[i]);
}
