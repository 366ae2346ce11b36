/* Strides: conversions walk each dimension by its own, in both directions, whatever the size of an element; and no two views are taken
 * of which an output shares an element with anything else, but for the view that an operator allows, while neighbours are taken. */
#include <math.h>

#include "../common/test.h"

enum { NDIM = 6 };

static const int64_t sizes[NDIM] = {2, 3, 1, 5, 4, 3};

/* ---- conversions ---- */

/* Dimensions in memory from the innermost outwards, `gap` elements behind each run of them; returns how far the tensor reaches. */
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

/* The square of x where x is a number of its own for each element, in y: all small integers, exact in every type. */
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

/* Rows of a table by indices of several dimensions, in each type: tensors that are read in each order, and repeated in each dimension. */
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

/* ---- overlaps ---- */

enum { PLACES = 256, VIEW = 3 };

typedef struct view {
    int64_t shape[VIEW], strides[VIEW], offset;
    int ndim;
} view;

/* How often a view's elements lie at each place. */
static void mark(const view *v, uint8_t *places)
{
    int64_t n = 1;
    memset(places, 0, PLACES);
    for (int i = 0; i < v->ndim; i++)
        n *= v->shape[i];
    for (int64_t e = 0; e < n; e++) {
        int64_t at = v->offset, rest = e;
        for (int i = v->ndim - 1; i >= 0; i--) {
            at += rest % v->shape[i] * v->strides[i];
            rest /= v->shape[i];
        }
        places[at]++;
    }
}

static float memory[PLACES];

static tg_tensor tensor_of(view *v)
{
    tg_tensor t = tg_tensor_of(memory, TG_F32, v->ndim, v->shape);
    t.byte_offset = (uint64_t)v->offset * sizeof *memory;
    t.strides = v->strides;
    return t;
}

static int is_taken(view *x, view *y)
{
    static int op = -1;
    if (op < 0)
        op = tg_op_by_name("relu_squared_forward");
    tg_tensor tx = tensor_of(x), ty = tensor_of(y);
    return tg_check(op, &(tg_relu_squared_forward_args){.x = &tx, .y = &ty}) == TG_OK;
}

/* Is no element of y one of x or another of y? Or are they one view? */
static int is_right(const view *x, const view *y)
{
    uint8_t of_x[PLACES], of_y[PLACES];
    mark(x, of_x);
    mark(y, of_y);
    int twice = 0, shared = 0, same = x->offset == y->offset;
    for (int i = 0; i < PLACES; i++) {
        twice += of_y[i] > 1;
        shared += of_x[i] && of_y[i];
    }
    for (int i = 0; i < y->ndim; i++)
        same &= y->shape[i] == 1 || x->strides[i] == y->strides[i];
    return !twice && (!shared || same);
}

static uint32_t drawn(uint32_t limit)
{
    static uint32_t state = 7;
    state = state * 1664525u + 1013904223u;
    return (state >> 12) % limit;
}

/* Views of a few elements, anywhere: what is taken is right. */
static void any_views(void)
{
    int taken = 0;
    for (int round = 0; round < 300000; round++) {
        view x = {.ndim = 1 + (int)drawn(VIEW)}, y;
        for (int i = 0; i < x.ndim; i++) {
            x.shape[i] = 1 + drawn(4);
            x.strides[i] = drawn(i + 1 == x.ndim ? 3 : 24);
        }
        y = x;
        for (int i = 0; i < x.ndim; i++)
            if (!drawn(3))
                y.strides[i] = drawn(24);
        x.offset = drawn(12);
        y.offset = drawn(50);
        if (!is_taken(&x, &y))
            continue;
        taken++;
        EXPECT(is_right(&x, &y),
               "x [%lld,%lld,%lld] by %lld,%lld,%lld at %lld, y by %lld,%lld,%lld at %lld is "
               "taken, of "
               "%d dimensions",
               (long long)x.shape[0], (long long)x.shape[1], (long long)x.shape[2],
               (long long)x.strides[0], (long long)x.strides[1], (long long)x.strides[2],
               (long long)x.offset, (long long)y.strides[0], (long long)y.strides[1],
               (long long)y.strides[2], (long long)y.offset, x.ndim);
    }
    EXPECT(taken > 20000, "%d views were taken: too few to mean anything", taken);
}

/* Neighbours that touch are taken, and one element more is not. */
static void neighbours(void)
{
    static const struct {
        const char *what;
        view x, y;
        int expected;
    } cases[] = {
        {"y behind x", {{3, 4}, {4, 1}, 0, 2}, {{3, 4}, {4, 1}, 12, 2}, 1},
        {"y on the last of x", {{3, 4}, {4, 1}, 0, 2}, {{3, 4}, {4, 1}, 11, 2}, 0},
        {"y before x", {{3, 4}, {4, 1}, 12, 2}, {{3, 4}, {4, 1}, 0, 2}, 1},
        {"y's last on x", {{3, 4}, {4, 1}, 11, 2}, {{3, 4}, {4, 1}, 0, 2}, 0},
        {"rows of y that touch", {{3, 4}, {4, 1}, 0, 2}, {{3, 4}, {4, 1}, 20, 2}, 1},
        {"rows of y, one element in two", {{3, 4}, {4, 1}, 0, 2}, {{3, 4}, {3, 1}, 20, 2}, 0},
        {"planes of y, one element in two",
         {{2, 3, 4}, {12, 4, 1}, 0, 3},
         {{2, 3, 4}, {11, 4, 1}, 40, 3},
         0},
        {"columns beside each other", {{3, 4}, {8, 1}, 0, 2}, {{3, 4}, {8, 1}, 4, 2}, 1},
        {"columns that share one", {{3, 4}, {8, 1}, 0, 2}, {{3, 4}, {8, 1}, 3, 2}, 0},
        {"columns that share one of the next row",
         {{3, 4}, {8, 1}, 0, 2},
         {{3, 4}, {8, 1}, 5, 2},
         0},
        {"columns with one between them", {{3, 4}, {9, 1}, 0, 2}, {{3, 4}, {9, 1}, 5, 2}, 1},
        {"blocks of a step", {{2, 3, 4}, {40, 5, 1}, 0, 3}, {{2, 3, 4}, {40, 5, 1}, 14, 3}, 1},
        {"blocks that share one", {{2, 3, 4}, {40, 5, 1}, 0, 3}, {{2, 3, 4}, {40, 5, 1}, 13, 3}, 0},
        {"blocks to the end of a step",
         {{2, 3, 4}, {40, 5, 1}, 0, 3},
         {{2, 3, 4}, {40, 5, 1}, 26, 3},
         1},
        {"blocks beyond it", {{2, 3, 4}, {40, 5, 1}, 0, 3}, {{2, 3, 4}, {40, 5, 1}, 27, 3}, 0},
        {"the view itself", {{3, 4}, {5, 1}, 3, 2}, {{3, 4}, {5, 1}, 3, 2}, 1},
        {"the view, transposed", {{4, 4}, {4, 1}, 3, 2}, {{4, 4}, {1, 4}, 3, 2}, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        view x = cases[i].x, y = cases[i].y;
        EXPECT(is_right(&x, &y) == cases[i].expected, "%s: the test is wrong", cases[i].what);
        EXPECT(is_taken(&x, &y) == cases[i].expected, "%s: %s", cases[i].what, tg_last_error());
    }
}

int main(void)
{
    tg_ctx *ctx = new_context();
    every_order(ctx);
    indices_of_each_order(ctx);
    neighbours();
    any_views();
    tg_ctx_destroy(ctx);
    return report();
}
