/* tg_ub_default_tiling gives what Liger's compute_default_tiling_strategy gives: thirty worked
 * examples at 192 KiB and at 256 KiB, with and without the cap of 3/4, and the cases that are
 * errors or None there. */
#include <tigon/npu.h>

#include "../common/test.h"

enum { KIB192, KIB256 };
static const int64_t capacities[] = {1572864, 2097152};

typedef struct example {
    const char *what;
    double margin;
    int64_t dtype;
    double multiplier;
    int nshapes, ndim;
    int64_t shape[2][2];
    int tiled;              /* bit d: dimension d */
    int64_t power[2][2];    /* capacity, shape: the largest power of two that fits uncapped */
    int64_t block[2][2][2]; /* capacity, shape, dimension; uncapped */
} example;

/* One shape of one dimension: SIZE; powers and results at both capacities. */
#define LINE(what, margin, dtype, mult, size, p192, r192, p256, r256)   \
    {                                                                   \
        what, margin, dtype, mult, 1, 1, {{size}}, 1, {{p192}, {p256}}, \
        {                                                               \
            {{r192}},                                                   \
            {                                                           \
                {                                                       \
                    r256                                                \
                }                                                       \
            }                                                           \
        }                                                               \
    }
/* One shape of two. */
#define TILE(what, margin, dtype, mult, a, b, tiled, p192, r192a, r192b, p256, r256a, r256b) \
    {                                                                                        \
        what, margin, dtype, mult, 1, 2, {{a, b}}, tiled, {{p192}, {p256}},                  \
        {                                                                                    \
            {{r192a, r192b}},                                                                \
            {                                                                                \
                {                                                                            \
                    r256a, r256b                                                             \
                }                                                                            \
            }                                                                                \
        }                                                                                    \
    }
/* Heads of q and of k, rows tiled. */
#define HEADS(what, margin, dtype, mult, q, k, d, p192, q192, k192, p256, q256, k256, padded) \
    {                                                                                         \
        what, margin, dtype, mult, 2, 2, {{q, d}, {k, d}}, 1, {{p192, p192}, {p256, p256}},   \
        {                                                                                     \
            {{q192, padded}, {k192, padded}},                                                 \
            {                                                                                 \
                {q256, padded},                                                               \
                {                                                                             \
                    k256, padded                                                              \
                }                                                                             \
            }                                                                                 \
        }                                                                                     \
    }

static const example examples[] = {
    LINE("rms_norm forward", .9, 4, 6, 4096, 4096, 4096, 8192, 4096),
    LINE("rms_norm backward", .9, 4, 8, 8192, 4096, 4096, 4096, 4096),
    LINE("fused_add_rms_norm backward", .9, 4, 12, 8192, 2048, 2048, 4096, 4096),
    LINE("poly_norm backward", .8, 4, 10, 4096, 2048, 2048, 4096, 4096),
    LINE("swiglu forward", .9, 4, 3, 10000000, 8192, 8192, 16384, 16384),
    LINE("swiglu backward", .9, 4, 6, 10000000, 4096, 4096, 8192, 8192),
    LINE("swiglu forward, 100 elements", .9, 4, 3, 100, 8192, 128, 16384, 128),
    HEADS("rope bf16", .9, 2, 3, 32, 8, 128, 128, 32, 8, 256, 32, 8, 128),
    HEADS("rope f32", .9, 4, 3, 64, 8, 256, 32, 32, 8, 64, 64, 8, 256),
    HEADS("rope f32, padded heads", .9, 4, 3, 128, 256, 128, 64, 64, 64, 128, 128, 128, 128),
    HEADS("llama4_rope f32", .9, 4, 20, 40, 8, 128, 16, 16, 8, 16, 16, 8, 128),
    HEADS("llama4_rope bf16, D=92", .9, 2, 20, 73, 155, 92, 32, 32, 32, 64, 64, 64, 128),
    LINE("cross_entropy plain forward", .9, 4, 2.5, 128256, 16384, 16384, 16384, 16384),
    LINE("cross_entropy general forward", .9, 4, 8, 32000, 4096, 4096, 4096, 4096),
    LINE("fused_linear_cross_entropy backward", .9, 4, 12, 152064, 2048, 2048, 4096, 4096),
    LINE("tvd", .8, 4, 5, 128256, 4096, 4096, 8192, 8192),
    TILE("kl_div forward", .9, 4, 6, 4096, 128, 1, 32, 32, 128, 64, 64, 128),
    TILE("kl_div forward, log target", .9, 4, 3, 4096, 128, 1, 64, 64, 128, 128, 128, 128),
    LINE("grpo log-softmax", .9, 4, 3, 151936, 8192, 8192, 16384, 16384),
    TILE("layer_norm row tile", .85, 4, 4, 8, 2048, 1, 4, 4, 2048, 4, 4, 2048),
    LINE("layer_norm column tile", .85, 4, 6, 16384, 4096, 4096, 8192, 8192),
    LINE("attn_res forward", .85, 4, 12, 8192, 2048, 2048, 4096, 4096),
    HEADS("neighborhood attention", .85, 4, 3, 64, 64, 64, 128, 64, 64, 256, 64, 64, 64),
    TILE("mhc GEMM", .9, 4, 6, 32, 4096, 2, 128, 32, 128, 256, 32, 256),
    LINE("all defaults", 0, 0, 0, 5000, 2048, 2048, 4096, 4096),
    TILE("two tiled dimensions", .85, 4, 3, 2048, 2048, 3, 8192, 2048, 2048, 16384, 2048, 2048),
    TILE("less than one element", .8, 4, 10, 64, 1048576, 1, 1, 1, 1048576, 1, 1, 1048576),
    TILE("fixed dimension 0", .8, 4, 10, 64, 0, 1, 2048, 64, 0, 4096, 64, 0),
    TILE("tiled dimension 0", .8, 4, 10, 0, 128, 1, 16, 1, 128, 32, 1, 128),
    TILE("embedding, narrow", .85, 4, 3.2, 16384, 256, 1, 32, 32, 256, 64, 64, 256),
};
enum { EXAMPLES = sizeof examples / sizeof *examples };

/* Where the cap leaves less. */
static const struct {
    const char *what;
    int capacity;
    int64_t power;
} capped[] = {
    {"llama4_rope f32", KIB192, 8},
    {"llama4_rope bf16, D=92", KIB256, 32},
    {"cross_entropy plain forward", KIB192, 8192},
    {"embedding, narrow", KIB256, 32},
};

static int64_t largest(const example *e, int capacity, int shape, int uncapped)
{
    for (size_t i = 0; !uncapped && i < sizeof capped / sizeof *capped; i++)
        if (!strcmp(capped[i].what, e->what) && capped[i].capacity == capacity)
            return capped[i].power;
    return e->power[capacity][shape];
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static const int64_t vast = (int64_t)1 << 40;

/* The example at a capacity; with its tiled dimensions as they are, or vast. */
static void run(const example *e, int capacity, int as_vast, int uncapped)
{
    int64_t size[2][2], dims[2], block[2][2], *const blocks[] = {block[0], block[1]};
    tg_ub_list shape[2], tiling[2];
    int ntiled = 0, answered = -1;
    for (int d = 0; d < e->ndim; d++)
        if (e->tiled >> d & 1)
            dims[ntiled++] = d;
    for (int s = 0; s < e->nshapes; s++) {
        for (int d = 0; d < e->ndim; d++)
            size[s][d] = as_vast && e->tiled >> d & 1 ? vast : e->shape[s][d];
        shape[s] = (tg_ub_list){e->ndim, size[s]};
        tiling[s] = (tg_ub_list){ntiled, dims};
    }
    const tg_ub_tiling t = {capacities[capacity], e->margin,  e->dtype,
                            e->multiplier,        e->nshapes, shape,
                            e->nshapes,           tiling,     uncapped};
    EXPECT(tg_ub_default_tiling(&t, blocks, &answered) == TG_OK, "%s: %s", e->what,
           tg_last_error());
    EXPECT(answered == e->nshapes, "%s: %d shapes", e->what, answered);
    for (int s = 0; s < e->nshapes; s++)
        for (int d = 0; d < e->ndim; d++) {
            const int64_t fits = largest(e, capacity, s, uncapped), told = e->block[capacity][s][d];
            const int64_t expected = !(e->tiled >> d & 1) ? told
                                     : as_vast            ? fits
                                                          : least(told, fits);
            EXPECT(block[s][d] == expected,
                   "%s: capacity %d, shape %d, dimension %d, uncapped %d: %lld, not %lld", e->what,
                   capacity, s, d, uncapped, (long long)block[s][d], (long long)expected);
        }
}

/* One shape 4 x 4 with these tiled dimensions. */
static tg_status ask(int ndims, const int64_t *dims, int nshapes, int ntilings, int *answered)
{
    static const int64_t four[] = {4, 4};
    static int64_t block[2];
    int64_t *const blocks[] = {block};
    const tg_ub_list shape = {2, four}, tilings[] = {{ndims, dims}, {ndims, dims}};
    const tg_ub_tiling t = {.capacity_bits = capacities[0],
                            .nshapes = nshapes,
                            .shapes = &shape,
                            .ntiling_dims = ntilings,
                            .tiling_dims = tilings};
    return tg_ub_default_tiling(&t, blocks, answered);
}

static void errors(void)
{
    const int64_t none = 0, two = 2, negative = -1, both[] = {1, 0, 1};
    int answered = 7;
    EXPECT(ask(0, &none, 1, 1, &answered) == TG_EINVAL && answered == 0, "an empty list");
    EXPECT(!strcmp(tg_last_error(), "tiling_dims[0] is empty, expected at least one dimension"),
           "%s", tg_last_error());
    EXPECT(ask(1, &two, 1, 1, &answered) == TG_EINVAL, "dimension 2 of 2");
    EXPECT(strstr(tg_last_error(), "dimension 2, expected 0 or more and below 2"), "%s",
           tg_last_error());
    EXPECT(ask(1, &negative, 1, 1, &answered) == TG_EINVAL, "dimension -1");
    EXPECT(strstr(tg_last_error(), "dimension -1"), "%s", tg_last_error());
    EXPECT(ask(3, both, 1, 1, &answered) == TG_OK && answered == 1, "a dimension given twice");
    answered = 7;
    EXPECT(ask(1, &none, 1, 2, &answered) == TG_OK && answered == 0, "two tilings for one shape");
    answered = 7;
    EXPECT(ask(1, &none, 0, 1, &answered) == TG_OK && answered == 0, "no shapes");
    answered = 7;
    EXPECT(ask(1, &none, 1, 0, &answered) == TG_OK && answered == 0, "no tilings");
    /* A missing capacity is an error even for nothing to do. */
    const tg_ub_tiling t = {.capacity_bits = -1};
    EXPECT(tg_ub_default_tiling(&t, NULL, &answered) == TG_EINVAL, "capacity -1");
}

int main(void)
{
    EXPECT(EXAMPLES == 30, "%d examples", EXAMPLES);
    for (int i = 0; i < 8 * EXAMPLES; i++)
        run(&examples[i / 8], i & 1 ? KIB256 : KIB192, i >> 1 & 1, i >> 2 & 1);
    errors();
    return report();
}
