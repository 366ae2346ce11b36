/* Indices in a card's memory that are out of range, on the stand-in for CANN's run time whose card
 * is the model: nothing is read out of range, tg_sync() tells of the first one, and results that do
 * not depend on it are right. */
#include <tigon/backend.h>

#include "../common/test.h"

enum { T = 5, K = 2, N = 8, SLOTS = T * K, E = 3, MANY = 18000, MOST = 8 * MANY };

static tg_ctx *ctx;

/* A tensor, and what the host knows of it. */
typedef struct filled {
    tg_tensor tensor;
    int64_t shape[2];
    char bytes[MOST];
} filled;

/* A tensor of the card, with these elements. */
static tg_tensor *give(filled *f, int type, int64_t rows, int64_t columns, const void *elements)
{
    f->shape[0] = rows;
    f->shape[1] = columns;
    f->tensor = tg_tensor_of(NULL, type, columns ? 2 : 1, f->shape);
    f->tensor.device.device_type = TG_DEVICE_ASCEND;
    const size_t bytes = (size_t)tg_numel(&f->tensor) * tg_type_size(type);
    f->tensor.data = tg_alloc(ctx, bytes);
    EXPECT(f->tensor.data, "%s", tg_last_error());
    memset(f->bytes, 0, sizeof f->bytes);
    if (elements)
        memcpy(f->bytes, elements, bytes);
    EXPECT(!tg_copy(ctx, f->tensor.data, TG_DEVICE_ASCEND, f->bytes, TG_DEVICE_CPU, bytes), "%s",
           tg_last_error());
    return &f->tensor;
}

/* What it holds now; its memory is given back. */
static const void *take(filled *f)
{
    const size_t bytes = (size_t)tg_numel(&f->tensor) * tg_type_size(tg_type_of(&f->tensor));
    tg_copy(ctx, f->bytes, TG_DEVICE_CPU, f->tensor.data, TG_DEVICE_ASCEND, bytes);
    tg_free(ctx, f->tensor.data);
    return f->bytes;
}

static void expect_told(tg_status called, const char *text)
{
    EXPECT(called == TG_OK, "%s", tg_last_error());
    const tg_status told = tg_sync(ctx);
    EXPECT(*text ? told == TG_EINVAL && !strcmp(tg_last_error(), text) : told == TG_OK,
           "tg_sync() is %d, \"%s\", expected \"%s\"", (int)told, tg_last_error(), text);
    EXPECT(tg_sync(ctx) == TG_OK, "the error is told twice: %s", tg_last_error());
}

static void gathers(int64_t wrong, const char *text)
{
    int64_t index[SLOTS];
    float from[T * N];
    filled x, slot, rows;
    for (int i = 0; i < SLOTS; i++)
        index[i] = i == 7 ? wrong : i == 4 ? -1 : (i * 3) % SLOTS;
    for (int i = 0; i < T * N; i++)
        from[i] = (float)i;
    const tg_moe_gather_forward_args args = {.x = give(&x, TG_F32, T, N, from),
                                             .slot = give(&slot, TG_I64, SLOTS, 0, index),
                                             .rows = give(&rows, TG_F32, SLOTS, N, NULL),
                                             .top_k = K};
    expect_told(tg_moe_gather_forward(ctx, &args), text);
    const float *y = take(&rows);
    for (int i = 0; i < SLOTS * N; i++)
        if (i / N != 7 || !*text) {
            const int64_t s = index[i / N];
            const float expected = s < 0 ? 0 : from[s / K * N + i % N];
            EXPECT(y[i] == expected, "row %d is %g, expected %g", i / N, y[i], expected);
        }
    take(&x);
    take(&slot);
}

static void routes(int64_t wrong, const char *text)
{
    int64_t experts[SLOTS];
    filled index, slot, offset, place;
    for (int i = 0; i < SLOTS; i++)
        experts[i] = i == 3 || i == 8 ? wrong : i % E;
    const tg_moe_route_args args = {.index = give(&index, TG_I64, T, K, experts),
                                    .slot = give(&slot, TG_I64, SLOTS, 0, NULL),
                                    .offset = give(&offset, TG_I64, E + 1, 0, NULL),
                                    .place = give(&place, TG_I64, T, K, NULL),
                                    .experts = E};
    expect_told(tg_moe_route(ctx, &args), text);
    const int64_t *at = take(&place);
    if (wrong < 0 || wrong >= E) /* no expert */
        EXPECT(at[3] == -1 && at[8] == -1, "places %lld and %lld of no expert", (long long)at[3],
               (long long)at[8]);
    take(&index);
    take(&slot);
    take(&offset);
}

/* Many slots, which several cores look at: the first of two is told, once. */
static void routes_many(int64_t wrong, int64_t other, const char *text)
{
    static int64_t experts[MANY];
    static filled index, slot, offset;
    for (int i = 0; i < MANY; i++)
        experts[i] = i == wrong || i == other ? E + 1 : i % E;
    const tg_moe_route_args args = {.index = give(&index, TG_I64, MANY, 1, experts),
                                    .slot = give(&slot, TG_I64, MANY, 0, NULL),
                                    .offset = give(&offset, TG_I64, E + 1, 0, NULL),
                                    .experts = E};
    expect_told(tg_moe_route(ctx, &args), text);
    take(&index);
    take(&slot);
    take(&offset);
}

/* `last`: where the last group ends; rows from there on are none's, and their numbers anything. */
static void multiplies(int64_t second, int64_t last, int64_t wrong, const char *text)
{
    int64_t from[SLOTS];
    const int64_t boundaries[E + 1] = {0, second, 6, last};
    filled a, b, offset, gather, c;
    for (int i = 0; i < SLOTS; i++)
        from[i] = i == 5 ? wrong : i < 8 ? i : INT64_MAX;
    const tg_grouped_gemm_forward_args args = {.a = give(&a, TG_BF16, T, N, NULL),
                                               .b = give(&b, TG_BF16, E * N, N, NULL),
                                               .offset =
                                                   give(&offset, TG_I64, E + 1, 0, boundaries),
                                               .gather = give(&gather, TG_I64, SLOTS, 0, from),
                                               .c = give(&c, TG_BF16, SLOTS, N, NULL),
                                               .top_k = K};
    const int64_t shape[] = {E, N, N};
    b.tensor.shape = (int64_t *)shape;
    b.tensor.ndim = 3;
    expect_told(tg_grouped_gemm_forward(ctx, &args), text);
    take(&a);
    take(&b);
    take(&offset);
    take(&gather);
    take(&c);
}

int main(void)
{
    EXPECT(!tg_ctx_create(&ctx) && !tg_ctx_set_device(ctx, "npu"), "%s", tg_last_error());
    gathers(9, "");
    gathers(-1, "");
    gathers(SLOTS, "moe_gather_forward: slot[7] is 10, out of bounds: expected in [0, 10)");
    gathers(-2, "moe_gather_forward: slot[7] is -2, out of bounds: expected in [0, 10)");
    gathers((int64_t)1 << 32 | 3, "moe_gather_forward: slot[7] is 4294967299, out of bounds: "
                                  "expected in [0, 10)");
    gathers(INT64_MIN, "moe_gather_forward: slot[7] is -9223372036854775808, out of bounds: "
                       "expected in [0, 10)");
    routes(2, "");
    routes(E, "");
    routes(E + 1, "moe_route: index[3] is 4, out of bounds: expected in [0, 4)");
    routes(-1, "moe_route: index[3] is -1, out of bounds: expected in [0, 4)");
    routes_many(-1, -1, "");
    routes_many(17000, 4000, "moe_route: index[4000] is 4, out of bounds: expected in [0, 4)");
    routes_many(MANY - 1, -1, "moe_route: index[17999] is 4, out of bounds: expected in [0, 4)");
    multiplies(4, 8, 9, "");
    multiplies(4, 8, 10,
               "grouped_gemm_forward: gather[5] is 10, out of bounds: expected in "
               "[0, 10)");
    multiplies(7, 8, 5, "grouped_gemm_forward: offset[2] is 6, out of bounds: expected in [7, 11)");
    multiplies(4, 11, 5,
               "grouped_gemm_forward: offset[3] is 11, out of bounds: expected in "
               "[6, 11)");
    tg_ctx_destroy(ctx);
    return report();
}
