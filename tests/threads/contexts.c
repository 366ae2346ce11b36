/* tests/threads/contexts.c - contexts side by side: threads that each create a context,
 * call an operator on an executor of their own, fail on purpose, and read the registry.
 * For ThreadSanitizer. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tigon/tigon.h>

#include "executor.h"

enum { CLIENTS = 4, CALLS = 5, R = 512, N = 300 };

typedef struct client {
    int number, failures;
    float *x, *y;
} client;

static void expect(client *c, int ok, const char *what)
{
    if (!ok) {
        c->failures++;
        printf("client %d: %s (%s)\n", c->number, what, tg_last_error());
    }
}

/* An error of this thread alone. */
static void fail_once(client *c, tg_ctx *ctx, const tg_tensor *x, tg_tensor *y)
{
    const int64_t wrong[] = {N + 1 + c->number};
    const tg_tensor weight = tg_tensor_of(c->x, TG_F32, 1, wrong);
    const tg_rms_norm_forward_args args = {.x = x, .weight = &weight, .y = y};
    expect(c, tg_rms_norm_forward(ctx, &args) == TG_EINVAL, "a weight of another size is refused");
    char found[16];
    snprintf(found, sizeof found, "%d", N + 1 + c->number);
    expect(c, strstr(tg_last_error(), found) != NULL, "the message is this thread's own");
}

static void *work(void *arg)
{
    client *c = arg;
    const int64_t shape[] = {R, N};
    const tg_tensor x = tg_tensor_of(c->x, TG_F32, 2, shape);
    tg_tensor y = tg_tensor_of(c->y, TG_F32, 2, shape);
    for (int i = 0; i < CALLS; i++) {
        tg_ctx *ctx = NULL;
        expect(c, tg_ctx_create(&ctx) == TG_OK, "a context");
        if (!ctx)
            return NULL;
        tg_ctx_set_executor(ctx, run_on_pthreads, NULL);
        tg_ctx_set_threads(ctx, 3);
        const tg_rms_norm_forward_args args = {.x = &x, .y = &y};
        expect(c, tg_rms_norm_forward(ctx, &args) == TG_OK, "rms_norm_forward");
        fail_once(c, ctx, &x, &y);
        expect(c, tg_default_of(ctx, "rms_norm_forward") >= 0, "a default implementation");
        expect(c, tg_impl_count() > 0 && *tg_infer_device(), "the registry");
        tg_ctx_destroy(ctx);
    }
    return NULL;
}

int main(void)
{
    client clients[CLIENTS] = {{0}};
    pthread_t threads[CLIENTS];
    int failures = 0;
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = (client){
            .number = i, .x = malloc(sizeof(float[R][N])), .y = malloc(sizeof(float[R][N]))};
        for (int k = 0; k < R * N; k++)
            clients[i].x[k] = (float)(k % 17) - 8;
        if (pthread_create(&threads[i], NULL, work, &clients[i]))
            return 1;
    }
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(threads[i], NULL);
        failures += clients[i].failures + !!memcmp(clients[0].y, clients[i].y, sizeof(float[R][N]));
    }
    for (int i = 0; i < CLIENTS; i++) {
        free(clients[i].x);
        free(clients[i].y);
    }
    return failures != 0;
}
