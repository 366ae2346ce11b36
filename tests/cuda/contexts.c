/* A program may make contexts without end: each has what it needs on the card, which ends with it.
 * Without a card, or without libtigon_cuda.so, the test is skipped.
 *   cuda_contexts */
#include <malloc.h>
#include <time.h>

#include "../common/test.h"

static tg_ctx *card_context(void)
{
    tg_ctx *ctx = new_context();
    if (tg_ctx_set_device(ctx, "cuda") == TG_OK)
        return ctx;
    printf("skipped: %s\n", tg_last_error());
    exit(77);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static size_t in_use(void)
{
    const struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}

static void work(tg_ctx *ctx, void *memory)
{
    float x[4] = {1, 2, 3, 4}, y[4];
    const int64_t shape[] = {2, 2};
    double took;
    tg_tensor t = tg_tensor_of(memory, TG_F32, 2, shape);
    t.device.device_type = TG_DEVICE_CUDA;
    EXPECT(tg_copy(ctx, memory, TG_DEVICE_CUDA, x, TG_DEVICE_CPU, sizeof x) == TG_OK &&
               tg_time_begin(ctx) == TG_OK &&
               tg_softmax_forward(ctx, &(tg_softmax_forward_args){.x = &t, .y = &t}) == TG_OK &&
               tg_time_end(ctx, &took) == TG_OK &&
               tg_copy(ctx, y, TG_DEVICE_CPU, memory, TG_DEVICE_CUDA, sizeof y) == TG_OK &&
               tg_sync(ctx) == TG_OK,
           "%s", tg_last_error());
    EXPECT(y[0] == y[2] && y[1] > 0.73f && y[1] < 0.74f, "%g %g", (double)y[0], (double)y[1]);
}

/* The shortest time of some batches of contexts; every tenth works on the card. */
static double time_of(int batches, void *memory)
{
    enum { BATCH = 500, TENTH = 10 };
    double shortest = 1e9;
    for (int i = 0; i < batches; i++) {
        const double begun = seconds();
        for (int k = 0; k < BATCH; k++) {
            tg_ctx *ctx = card_context();
            if (k % TENTH == 0)
                work(ctx, memory);
            tg_ctx_destroy(ctx);
        }
        const double took = seconds() - begun;
        shortest = took < shortest ? took : shortest;
    }
    return shortest;
}

int main(void)
{
    tg_ctx *ctx = card_context();
    void *memory = tg_alloc(ctx, 64);
    EXPECT(memory, "%s", tg_last_error());
    const double first = time_of(10, memory);
    const size_t before = in_use();
    time_of(180, memory);
    const double last = time_of(10, memory);
    printf("500 contexts: %.3g s at first, %.3g s after 95000 others\n", first, last);
    EXPECT(last < 2 * first, "%g s, %g s at first", last, first);
    EXPECT(in_use() < before + (1 << 20), "%zu bytes more", in_use() - before);
    tg_free(ctx, memory);
    tg_ctx_destroy(ctx);
    return report();
}
