/* Overlaps: no two views are taken of which an output shares an element with anything else, but for
 * the view that an operator allows, while neighbours are taken. */
#include "../common/test.h"

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
        op = tg_op_by_name("softmax_forward");
    tg_tensor tx = tensor_of(x), ty = tensor_of(y);
    return tg_check(op, &(tg_softmax_forward_args){.x = &tx, .y = &ty}) == TG_OK;
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
        {"the view, transposed", {{4, 4}, {4, 1}, 3, 2}, {{4, 4}, {1, 4}, 3, 2}, 0},
        {"the view, its rows in another order",
         {{4, 4, 2}, {8, 2, 1}, 3, 3},
         {{4, 4, 2}, {2, 8, 1}, 3, 3},
         0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        view x = cases[i].x, y = cases[i].y;
        EXPECT(is_right(&x, &y) == cases[i].expected, "%s: the test is wrong", cases[i].what);
        EXPECT(is_taken(&x, &y) == cases[i].expected, "%s: %s", cases[i].what, tg_last_error());
    }
}

int main(void)
{
    neighbours();
    any_views();
    return report();
}
