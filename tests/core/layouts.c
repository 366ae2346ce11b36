/* Strides: conversions walk each dimension by its own, in both directions, whatever the size of an
 * element, and so do indices, of which one out of bounds is told by its place. */
#include "../common/test.h"

enum { NDIM = 6 };

static const int64_t sizes[NDIM] = {2, 3, 1, 5, 4, 3};

/* Dimensions in memory from the innermost outwards, `gap` elements behind each run of them; returns
 * how far the tensor reaches. */
static int64_t lay_out(int ndim, const int *order, int64_t first, int64_t gap, int64_t *strides)
{
    int64_t reach = first;
    for (int i = 0; i < ndim; i++) {
        strides[order[i]] = reach;
        reach = reach * sizes[order[i]] + gap;
    }
    return reach;
}

static int64_t place(int ndim, const int64_t *strides, int64_t element)
{
    int64_t at = 0;
    for (int i = ndim - 1; i >= 0; i--) {
        at += element % sizes[i] * strides[i];
        element /= sizes[i];
    }
    return at;
}

static int next_order(int *order, int n)
{
    int i = n - 2, k = n - 1;
    while (i >= 0 && order[i] > order[i + 1])
        i--;
    if (i < 0)
        return 0;
    while (order[k] < order[i])
        k--;
    const int kept = order[i];
    order[i] = order[k], order[k] = kept;
    for (int a = i + 1, b = n - 1; a < b; a++, b--) {
        const int left = order[a];
        order[a] = order[b], order[b] = left;
    }
    return 1;
}

static int64_t elements(int ndim)
{
    int64_t n = 1;
    for (int i = 0; i < ndim; i++)
        n *= sizes[i];
    return n;
}

enum { ROOM = 4096 };

/* The square of x where x is a number of its own for each element, in y: all small integers,
 * exact in every type. */
static void squares(tg_ctx *ctx, int ndim, const int *order, int64_t gap, tg_type type)
{
    static double x[ROOM], y[ROOM];
    int64_t in[NDIM], out[NDIM];
    const int size = (int)tg_type_size(type);
    lay_out(ndim, order, 1, gap, in);
    int reversed[NDIM];
    for (int i = 0; i < ndim; i++) /* the last dimension stays innermost */
        reversed[i] = order[i ? ndim - i : 0];
    lay_out(ndim, reversed, 1, gap, out);
    memset(x, 0, sizeof x);
    memset(y, 0, sizeof y);
    for (int64_t i = 0; i < elements(ndim); i++) {
        if (type == TG_F64)
            x[place(ndim, in, i)] = (double)i;
        else
            ((float *)x)[place(ndim, in, i)] = (float)i;
    }
    tg_tensor tx = tg_tensor_of(x, type, ndim, sizes), ty = tg_tensor_of(y, type, ndim, sizes);
    tx.strides = in;
    ty.strides = out;
    const tg_relu_squared_forward_args args = {.x = &tx, .y = &ty};
    EXPECT(tg_relu_squared_forward(ctx, &args) == TG_OK, "%s", tg_last_error());
    int64_t wrong = 0, written = 0;
    for (int64_t i = 0; i < elements(ndim); i++) {
        const int64_t at = place(ndim, out, i);
        wrong += (type == TG_F64 ? y[at] : (double)((float *)y)[at]) != (double)(i * i);
    }
    for (int64_t i = 0; i < (int64_t)sizeof y / size; i++)
        written += (type == TG_F64 ? y[i] : (double)((float *)y)[i]) != 0;
    EXPECT(!wrong, "%d dimensions, %d before the last: %lld elements are wrong", ndim,
           ndim > 1 ? order[1] : 0, (long long)wrong);
    EXPECT(written == elements(ndim) - 1, "%d dimensions: %lld elements were written", ndim,
           (long long)written);
}

static void every_order(tg_ctx *ctx)
{
    for (int ndim = 1; ndim <= NDIM; ndim++) {
        int order[NDIM] = {ndim - 1};
        for (int i = 1; i < ndim; i++)
            order[i] = i - 1;
        do
            for (int64_t gap = 0; gap < 2; gap++)
                squares(ctx, ndim, order, gap, gap ? TG_F64 : TG_F32);
        while (next_order(order + 1, ndim - 1));
    }
}

/* Rows of a table by indices of several dimensions, in each type: tensors that are read in each
 * order, and repeated in each dimension. */
static void indices(tg_ctx *ctx, int ndim, tg_type type, const int64_t *strides)
{
    static int64_t space[ROOM];
    static float table[ROOM], y[ROOM];
    int64_t rows[] = {ROOM, 1}, out[NDIM + 1];
    memset(space, 0, sizeof space);
    for (int64_t i = elements(ndim) - 1; i >= 0;
         i--) { /* the first of those that share an element stays */
        if (type == TG_I64)
            space[place(ndim, strides, i)] = i;
        else
            ((int32_t *)space)[place(ndim, strides, i)] = (int32_t)i;
    }
    for (int i = 0; i < ROOM; i++)
        table[i] = (float)i;
    memcpy(out, sizes, sizeof sizes);
    out[ndim] = 1;
    tg_tensor weight = tg_tensor_of(table, TG_F32, 2, rows),
              t = tg_tensor_of(space, type, ndim, sizes),
              ty = tg_tensor_of(y, TG_F32, ndim + 1, out);
    int64_t given[NDIM];
    memcpy(given, strides, sizeof given);
    t.strides = given;
    const tg_embedding_forward_args args = {.weight = &weight, .indices = &t, .y = &ty};
    EXPECT(tg_embedding_forward(ctx, &args) == TG_OK, "%s", tg_last_error());
    for (int64_t i = 0; i < elements(ndim); i++) {
        const int64_t at = place(ndim, strides, i);
        const int64_t expected = type == TG_I64 ? space[at] : ((int32_t *)space)[at];
        EXPECT(y[i] == (float)expected, "%s, %d dimensions: element %lld is %g, expected %lld",
               tg_type_name(type), ndim, (long long)i, (double)y[i], (long long)expected);
    }
}

/* embedding_forward: indices[0,2] is 1, ... */
static void name_of_bad(int ndim, int64_t element, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "embedding_forward: indices[");
    int64_t inside = elements(ndim);
    for (int i = 0; i < ndim; i++) {
        inside /= sizes[i];
        used += (size_t)snprintf(text + used, size - used, "%s%lld", i ? "," : "",
                                 (long long)(element / inside % sizes[i]));
    }
    snprintf(text + used, size - used, "] is 1, out of bounds: expected in [0, 1)");
}

/* Zeros, among numbers that are no indices; then one of them is 1. */
static void bad_index(int ndim, const int64_t *strides, int64_t bad)
{
    static int64_t space[ROOM];
    static float table[1], y[ROOM];
    int64_t rows[] = {1, 1}, out[NDIM + 1], given[NDIM];
    memset(space, 0xff, sizeof space);
    for (int64_t i = 0; i < elements(ndim); i++)
        space[place(ndim, strides, i)] = 0;
    memcpy(given, strides, sizeof given);
    memcpy(out, sizes, sizeof sizes);
    out[ndim] = 1;
    tg_tensor weight = tg_tensor_of(table, TG_F32, 2, rows),
              t = tg_tensor_of(space, TG_I64, ndim, sizes),
              ty = tg_tensor_of(y, TG_F32, ndim + 1, out);
    t.strides = given;
    const int op = tg_op_by_name("embedding_forward");
    const tg_embedding_forward_args args = {.weight = &weight, .indices = &t, .y = &ty};
    EXPECT(tg_check(op, &args) == TG_OK, "%d dimensions: %s", ndim, tg_last_error());
    space[place(ndim, strides, bad)] = 1;
    char expected[128];
    name_of_bad(ndim, bad, expected, sizeof expected);
    EXPECT(tg_check(op, &args) == TG_EINVAL && strcmp(tg_last_error(), expected) == 0,
           "the message is\n  %s, expected\n  %s", tg_last_error(), expected);
}

/* In each order of dimensions, with gaps and without, another index each time. */
static void bad_index_in_each_order(void)
{
    int64_t round = 0;
    for (int ndim = 1; ndim <= NDIM; ndim++) {
        int order[NDIM];
        for (int i = 0; i < ndim; i++)
            order[i] = i;
        do
            for (int64_t gap = 0; gap < 2; gap++) {
                int64_t strides[NDIM] = {0};
                lay_out(ndim, order, 1 + gap, gap, strides);
                bad_index(ndim, strides, 7 * ++round % elements(ndim));
            }
        while (next_order(order, ndim));
    }
}

static void indices_of_each_order(tg_ctx *ctx)
{
    for (int ndim = 1; ndim <= NDIM; ndim++) {
        int order[NDIM];
        for (int i = 0; i < ndim; i++)
            order[i] = i;
        do {
            int64_t strides[NDIM] = {0};
            lay_out(ndim, order, 1, 0, strides);
            indices(ctx, ndim, TG_I64, strides);
            indices(ctx, ndim, TG_I32, strides);
            for (int repeated = 0; ndim < 5 && repeated < ndim; repeated++) {
                int64_t again[NDIM];
                memcpy(again, strides, sizeof again);
                again[repeated] = 0;
                indices(ctx, ndim, TG_I64, again);
            }
        } while (next_order(order, ndim));
    }
}

int main(void)
{
    tg_ctx *ctx = new_context();
    every_order(ctx);
    indices_of_each_order(ctx);
    bad_index_in_each_order();
    tg_ctx_destroy(ctx);
    return report();
}
