/* A backend inside the program: taken by contexts that exist already, and refused with a reason. */
#include <pthread.h>
#include <unistd.h>

#include "../common/test.h"

#include <tigon/backend.h>

static int opened, calls;

static tg_status open_backend(const tg_host *host)
{
    opened += host->abi == TG_ABI;
    return TG_OK;
}

/* Takes every other call, and leaves the rest to the next implementation. */
static tg_status forward(tg_ctx *ctx, const tg_softmax_forward_args *args)
{
    (void)ctx;
    if (calls++ % 2)
        return TG_EUNSUPPORTED;
    ((float *)args->y->data)[0] = 42;
    return TG_OK;
}

static const tg_impl impls[] = {TG_IMPL(softmax_forward, "", 0, TG_TAKES_FLOATS, NULL, forward),
                                TG_IMPLS_END};

static tg_backend backend(const char *vendor)
{
    return (tg_backend){TG_ABI,        sizeof(tg_backend),   vendor,        "cpu",
                        TG_DEVICE_CPU, .open = open_backend, .impls = impls};
}

static void refused(const tg_backend *b, tg_status expected, const char *word)
{
    const int count = tg_backend_count();
    const tg_status status = tg_backend_register(b);
    EXPECT(status == expected && strstr(tg_last_error(), word), "%s (%s), expected %s and \"%s\"",
           tg_status_name(status), tg_last_error(), tg_status_name(expected), word);
    EXPECT(tg_backend_count() == count, "a refused backend is there");
}

/* On a thread of its own: a lock that a refusal left held would stop it, where the thread that
 * holds it may go on. */
static void *register_elsewhere(void *b)
{
    EXPECT(tg_backend_register(b) == TG_EINVAL, "%s", tg_last_error());
    EXPECT(tg_backend_load("there/is/no.so") == TG_ENOTFOUND, "%s", tg_last_error());
    return NULL;
}

static void nothing_is_held(tg_backend *b)
{
    pthread_t thread;
    EXPECT(tg_backend_load("there/is/no.so") == TG_ENOTFOUND, "%s", tg_last_error());
    alarm(20); /* the test ends there, by the signal */
    for (int i = 0; i < 2; i++) {
        EXPECT(pthread_create(&thread, NULL, register_elsewhere, b) == 0, "no thread");
        pthread_join(thread, NULL);
    }
    alarm(0);
}

int main(void)
{
    float x[] = {0, 0}, y[2];
    const int64_t shape[] = {1, 2};
    tg_tensor tx = tg_tensor_of(x, TG_F32, 2, shape), ty = tg_tensor_of(y, TG_F32, 2, shape);
    const tg_softmax_forward_args args = {.x = &tx, .y = &ty};
    tg_ctx *ctx;
    EXPECT(tg_ctx_create(&ctx) == TG_OK, "%s", tg_last_error());
    EXPECT(tg_softmax_forward(ctx, &args) == TG_OK && y[0] == 0.5f, "%g", (double)y[0]);

    static tg_backend mine;
    mine = backend("mine");
    EXPECT(tg_backend_register(&mine) == TG_OK && opened == 1, "%s", tg_last_error());
    EXPECT(tg_softmax_forward(ctx, &args) == TG_OK && y[0] == 42, "%g", (double)y[0]);
    EXPECT(!strcmp(tg_ctx_last_impl(ctx), "mine/softmax_forward"), "%s", tg_ctx_last_impl(ctx));
    EXPECT(tg_softmax_forward(ctx, &args) == TG_OK && y[0] == 0.5f, "%g", (double)y[0]);
    tg_ctx_destroy(ctx);

    tg_backend b = backend("mine");
    refused(&b, TG_EINVAL, "vendor mine is already there");
    refused(NULL, TG_EINVAL, "NULL");
    b = backend("Other");
    refused(&b, TG_EINVAL, "vendor is Other");
    b = backend("other");
    b.impls = NULL;
    refused(&b, TG_EINVAL, "impls is NULL");
    b = backend("other");
    b.abi++;
    refused(&b, TG_EABI, "ABI");
    b = backend("mine");
    nothing_is_held(&b);
    return report();
}
