/* x * cos + rotate_half(x) * sin in elementary steps. */
#include "rotary/rotary_eager.h"

/* Rows [D] of one tensor that lie evenly, and the rows of the tables that go with them. */
typedef struct part {
    mat x, y, cos, sin;
    int64_t half;
} part;

mat rotary_eager_columns(mat m, int64_t begin, int64_t count)
{
    m.data = (char *)m.data + begin * (int64_t)tg_type_size(m.type);
    m.cols = count;
    return m;
}

static int temporary_type(const part *p)
{
    return p->cos.type == TG_F32 ? TG_F32 : p->x.type;
}

/* out = a * table, in both halves */
static mat times(eager *e, const part *p, mat a, mat table)
{
    const mat out = eager_new(e, temporary_type(p), a.rows, 2 * p->half);
    for (int64_t at = 0; at <= p->half; at += p->half ? p->half : 1)
        eager_binary(e, EAGER_MUL, rotary_eager_columns(out, at, p->half),
                     rotary_eager_columns(a, at, p->half), table);
    return out;
}

/* direction 1: (-second half, first half); -1: (second half, -first half) */
static mat swap_halves(eager *e, const part *p, mat a, int direction)
{
    const mat out = eager_new(e, a.type, a.rows, 2 * p->half);
    eager_unary(e, direction > 0 ? EAGER_NEG : EAGER_COPY, rotary_eager_columns(out, 0, p->half),
                rotary_eager_columns(a, p->half, p->half));
    eager_unary(e, direction > 0 ? EAGER_COPY : EAGER_NEG,
                rotary_eager_columns(out, p->half, p->half), rotary_eager_columns(a, 0, p->half));
    return out;
}

static void rotate(eager *e, const part *p, int direction)
{
    const int64_t width = 2 * p->half;
    mat turned;
    if (direction > 0) {
        const mat swapped = swap_halves(e, p, p->x, 1);
        turned = times(e, p, swapped, p->sin);
        eager_free(e, swapped);
    } else {
        const mat product = times(e, p, p->x, p->sin);
        turned = swap_halves(e, p, product, -1);
        eager_free(e, product);
    }
    const mat straight = times(e, p, p->x, p->cos);
    eager_binary(e, EAGER_ADD, rotary_eager_columns(p->y, 0, width), straight, turned);
    eager_free(e, straight);
    eager_free(e, turned);
    if (p->x.cols > width && p->x.data != p->y.data)
        eager_unary(e, EAGER_COPY, rotary_eager_columns(p->y, width, p->y.cols - width),
                    rotary_eager_columns(p->x, width, p->x.cols - width));
}

/* Positions and heads of one batch, or positions of one head, as rows of a matrix. */
static mat rows_at(const tg_tensor *t, int64_t b, int64_t h, int64_t rows, int64_t stride)
{
    const int64_t at = b * tg_stride(t, 0) + h * tg_stride(t, 2);
    return eager_view((char *)tg_data(t) + at * (int64_t)tg_type_size(tg_type_of(t)), tg_type_of(t),
                      rows, t->shape[3], stride);
}

/* The first `count` positions of a table, each for `repeat` rows. */
static mat table_at(mat table, int64_t count, int64_t half, int64_t repeat)
{
    table.rows = count;
    table.cols = half;
    table.repeat = repeat;
    return table;
}

static int positions_and_heads_collapse(const tg_tensor *t)
{
    return t->shape[2] == 1 || tg_stride(t, 1) == t->shape[2] * tg_stride(t, 2);
}

void rotary_eager_run(eager *e, const rotary_eager *by, const tg_tensor *x, const tg_tensor *y)
{
    if (!x || tg_numel(x) == 0)
        return;
    const int64_t positions = x->shape[1], heads = x->shape[2];
    const int together = positions_and_heads_collapse(x) && positions_and_heads_collapse(y);
    const int64_t groups = together ? 1 : heads, repeat = together ? heads : 1;
    const int dimension = together && heads > 1 ? 2 : 1;
    for (int64_t b = 0; b < x->shape[0]; b++)
        for (int64_t h = 0; h < groups; h++) {
            const part p = {rows_at(x, b, h, positions * repeat, tg_stride(x, dimension)),
                            rows_at(y, b, h, positions * repeat, tg_stride(y, dimension)),
                            table_at(by->cos(by->tables, b), positions, by->half, repeat),
                            table_at(by->sin(by->tables, b), positions, by->half, repeat),
                            by->half};
            rotate(e, &p, by->direction);
        }
}
