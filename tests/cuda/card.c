/* On a card: indices out of range, calls that are recorded into a graph, events, steps that are
 * left out, and tensors of a card that is not the context's. Without a card, or without
 * libtigon_cuda.so, the test is skipped.
 *   cuda_card */
#include <math.h>

#include "calls.h"

/* Recorded on the default stream, which CUDA itself does not record. */
static void check_graph(void)
{
    tg_ctx *ctx = card_context();
    tg_graph *graph;
    problem p;
    size_t bytes;
    make(&p, ctx, 3);
    EXPECT(tg_graph_begin(ctx) == TG_OK, "%s", tg_last_error());
    EXPECT(tg_graph_end(ctx, NULL) == TG_OK, "%s", tg_last_error());
    call(&p); /* takes the workspace */
    unsigned char *expected = results(&p, &bytes);
    wipe(&p);
    EXPECT(tg_graph_begin(ctx) == TG_OK, "%s", tg_last_error());
    call(&p);
    EXPECT(tg_graph_end(ctx, &graph) == TG_OK, "%s", tg_last_error());
    EXPECT(tg_graph_launch(ctx, graph) == TG_OK, "%s", tg_last_error());
    expect_same(&p, expected, bytes, "a launch");
    ((int64_t *)p.f[TARGET])[3] = 99; /* of a launch, too, it is told */
    copy(&p, TARGET, 1);
    EXPECT(tg_graph_launch(ctx, graph) == TG_OK, "%s", tg_last_error());
    EXPECT(tg_sync(ctx) == TG_EINVAL && strstr(tg_last_error(), "target[3] is 99"), "%s",
           tg_last_error());
    tg_graph_destroy(ctx, graph);
    free(expected);
    drop(&p);
    tg_ctx_destroy(ctx);
}

/* An event comes behind what was put before it, and a copy to the host's own memory does not wait
 * by itself. */
static void check_event(void)
{
    tg_ctx *ctx = card_context();
    tg_event *event = NULL;
    problem p;
    make(&p, ctx, 5);
    float *found = tg_alloc_host(ctx, bytes_of(&p, X));
    EXPECT(found, "%s", tg_last_error());
    for (int i = 0; i < 3; i++) {
        memset(found, 0, bytes_of(&p, X));
        EXPECT(tg_copy(ctx, found, TG_DEVICE_CPU, p.t[X].data, tg_ctx_device_type(ctx),
                       bytes_of(&p, X)) == TG_OK,
               "%s", tg_last_error());
        EXPECT(tg_event_record(ctx, &event) == TG_OK, "%s", tg_last_error());
        EXPECT(tg_event_wait(ctx, event) == TG_OK, "%s", tg_last_error());
        EXPECT(!memcmp(found, p.f[X], bytes_of(&p, X)), "the copy is not there");
    }
    tg_event_destroy(ctx, event);
    tg_free_host(ctx, found);
    drop(&p);
    tg_ctx_destroy(ctx);
}

/* A step whose gradients are not finite changes nothing; the next one does. */
static void check_step(void)
{
    tg_ctx *ctx = card_context();
    problem p;
    const float squares[3] = {NAN, INFINITY, 4};
    make(&p, ctx, 5);
    memset(p.f[DX], 0, bytes_of(&p, DX)); /* the second moment */
    copy(&p, DX, 1);
    tg_tensor one = p.t[LOSS];
    for (int i = 0; i < 3; i++) {
        p.f[LOSS][0] = squares[i];
        copy(&p, LOSS, 1);
        EXPECT(tg_adamw(ctx, &(tg_adamw_args){.param = &p.t[X],
                                              .grad = &p.t[DY],
                                              .m = &p.t[Y],
                                              .v = &p.t[DX],
                                              .grad_squares = &one,
                                              .lr = 1,
                                              .max_norm = 1,
                                              .step = 1}) == TG_OK,
               "%s", tg_last_error());
        EXPECT(tg_sync(ctx) == TG_OK, "%s", tg_last_error());
        const float before = p.f[X][0];
        copy(&p, X, 0);
        EXPECT(tg_sync(ctx) == TG_OK, "%s", tg_last_error());
        EXPECT((p.f[X][0] == before) == (i < 2), "squares of %g: %g becomes %g", squares[i], before,
               p.f[X][0]);
    }
    drop(&p);
    tg_ctx_destroy(ctx);
}

/* The wrong index is told of once, by its own context; its row is left alone, and all else goes
 * on. */
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
    if (tg_ctx_set_device(ctx, "cuda") != TG_OK) {
        printf("not tested: %s\n", tg_last_error());
        return 77;
    }
    tg_ctx_destroy(ctx);
    check_indices();
    check_graph();
    check_event();
    check_step();
    check_cards();
    return report();
}
