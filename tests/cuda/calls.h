/* calls.h - a norm, its gradients and a loss; rows that take most of a block's shared memory; a
 * product: on a card. */
#ifndef TIGON_CUDA_CALLS_H
#define TIGON_CUDA_CALLS_H

#include "../common/test.h"

enum { R = 48, N = 1000, V = 50, WIDTH = 12000 };

enum {
    X,
    WEIGHT,
    Y,
    RSTD,
    DY,
    DX,
    DWEIGHT,
    LOGITS,
    TARGET,
    LOSS,
    DLOGITS,
    WIDE,
    SHARES,
    PRODUCT,
    TENSORS
};
static const int64_t shape[TENSORS][2] = {{R, N}, {N},        {R, N},     {R},   {R, N},
                                          {R, N}, {N},        {R, V},     {R},   {1},
                                          {R, V}, {3, WIDTH}, {3, WIDTH}, {R, R}};
static const int ndim[TENSORS] = {2, 1, 2, 1, 2, 2, 1, 2, 1, 1, 2, 2, 2, 2};
static const int outputs[] = {Y, RSTD, DX, DWEIGHT, LOSS, DLOGITS, SHARES, PRODUCT};
enum { OUTPUTS = sizeof outputs / sizeof *outputs };

typedef struct problem {
    tg_ctx *ctx;
    float *f[TENSORS]; /* on the host; of TARGET int64_t */
    tg_tensor t[TENSORS];
} problem;

static inline size_t bytes_of(const problem *p, int i)
{
    return (size_t)tg_numel(&p->t[i]) * tg_type_size(tg_type_of(&p->t[i]));
}

static inline void copy(problem *p, int i, int to_device)
{
    const int there = tg_ctx_device_type(p->ctx);
    EXPECT((to_device ? tg_copy(p->ctx, p->t[i].data, there, p->f[i], TG_DEVICE_CPU, bytes_of(p, i))
                      : tg_copy(p->ctx, p->f[i], TG_DEVICE_CPU, p->t[i].data, there,
                                bytes_of(p, i))) == TG_OK,
           "%s", tg_last_error());
}

static inline void make(problem *p, tg_ctx *ctx, int seed)
{
    p->ctx = ctx;
    for (int i = 0; i < TENSORS; i++) {
        p->t[i] = tg_tensor_of(NULL, i == TARGET ? TG_I64 : TG_F32, ndim[i], shape[i]);
        p->t[i].device.device_type = tg_ctx_device_type(ctx);
        p->f[i] = malloc(bytes_of(p, i));
        p->t[i].data = tg_alloc(ctx, bytes_of(p, i));
        EXPECT(p->t[i].data, "%s", tg_last_error());
        for (int k = 0; k < tg_numel(&p->t[i]); k++)
            if (i == TARGET)
                ((int64_t *)p->f[i])[k] = (k * 5 + seed) % V;
            else
                p->f[i][k] = (float)((k * 37 + i * 11 + seed) % 23) / 8 - 1;
        copy(p, i, 1);
    }
    EXPECT(tg_sync(ctx) == TG_OK, "%s", tg_last_error());
}

static inline void drop(problem *p)
{
    for (int i = 0; i < TENSORS; i++) {
        tg_free(p->ctx, p->t[i].data);
        free(p->f[i]);
    }
}

static inline void call(problem *p)
{
    tg_tensor *t = p->t;
    EXPECT(tg_rms_norm_forward(p->ctx, &(tg_rms_norm_forward_args){.x = &t[X],
                                                                   .weight = &t[WEIGHT],
                                                                   .y = &t[Y],
                                                                   .rstd = &t[RSTD]}) == TG_OK,
           "%s", tg_last_error());
    EXPECT(tg_rms_norm_backward(p->ctx, &(tg_rms_norm_backward_args){.dy = &t[DY],
                                                                     .x = &t[X],
                                                                     .weight = &t[WEIGHT],
                                                                     .rstd = &t[RSTD],
                                                                     .dx = &t[DX],
                                                                     .dweight = &t[DWEIGHT]}) ==
               TG_OK,
           "%s", tg_last_error());
    EXPECT(tg_cross_entropy_forward(
               p->ctx, &(tg_cross_entropy_forward_args){.logits = &t[LOGITS],
                                                        .target = &t[TARGET],
                                                        .loss = &t[LOSS],
                                                        .dlogits = &t[DLOGITS]}) == TG_OK,
           "%s", tg_last_error());
    EXPECT(tg_sparsemax_forward(
               p->ctx, &(tg_sparsemax_forward_args){.x = &t[WIDE], .y = &t[SHARES]}) == TG_OK,
           "%s", tg_last_error());
    EXPECT(
        tg_gemm(p->ctx, &(tg_gemm_args){.a = &t[X], .b = &t[X], .c = &t[PRODUCT], .trans_b = 1}) ==
            TG_OK,
        "%s", tg_last_error());
}

/* The results as bytes, one after the other. */
static inline unsigned char *results(problem *p, size_t *bytes)
{
    unsigned char *all = NULL;
    *bytes = 0;
    for (int i = 0; i < OUTPUTS; i++)
        copy(p, outputs[i], 0);
    EXPECT(tg_sync(p->ctx) == TG_OK, "%s", tg_last_error());
    for (int i = 0; i < OUTPUTS; i++) {
        const size_t more = bytes_of(p, outputs[i]);
        all = realloc(all, *bytes + more);
        memcpy(all + *bytes, p->f[outputs[i]], more);
        *bytes += more;
    }
    return all;
}

static inline void wipe(problem *p)
{
    for (int i = 0; i < OUTPUTS; i++) {
        memset(p->f[outputs[i]], 0xff, bytes_of(p, outputs[i]));
        copy(p, outputs[i], 1);
    }
    EXPECT(tg_sync(p->ctx) == TG_OK, "%s", tg_last_error());
}

static inline void expect_same(problem *p, const unsigned char *expected, size_t bytes,
                               const char *what)
{
    size_t n;
    unsigned char *found = results(p, &n);
    EXPECT(n == bytes && !memcmp(found, expected, bytes), "%s gives other bits", what);
    free(found);
}

static inline tg_ctx *card_context(void)
{
    tg_ctx *ctx = new_context();
    EXPECT(tg_ctx_set_device(ctx, "cuda") == TG_OK, "%s", tg_last_error());
    return ctx;
}

#endif
