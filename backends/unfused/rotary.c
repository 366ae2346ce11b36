/* x * cos + rotate_half(x) * sin in elementary steps. */
#include "rotary.h"

/* What of the rows [D] of one tensor is turned, and the rows of the tables that go with them. */
typedef struct part {
    mat x, y, cos, sin;
    int64_t half;
} part;

static int temporary_type(const part *p)
{
    return p->cos.type == TG_F32 ? TG_F32 : p->x.type;
}

/* out = a * table, in both halves */
static mat times(eager *e, const part *p, mat a, mat table)
{
    const mat out = eager_new(e, temporary_type(p), a.rows, 2 * p->half);
    for (int64_t at = 0; at <= p->half; at += p->half ? p->half : 1)
        eager_binary(e, EAGER_MUL, eager_columns(out, at, p->half), eager_columns(a, at, p->half),
                     table);
    return out;
}

/* direction 1: (-second half, first half); -1: (second half, -first half) */
static mat swap_halves(eager *e, const part *p, mat a, int direction)
{
    const mat out = eager_new(e, a.type, a.rows, 2 * p->half);
    eager_unary(e, direction > 0 ? EAGER_NEG : EAGER_COPY, eager_columns(out, 0, p->half),
                eager_columns(a, p->half, p->half));
    eager_unary(e, direction > 0 ? EAGER_COPY : EAGER_NEG, eager_columns(out, p->half, p->half),
                eager_columns(a, 0, p->half));
    return out;
}

static void turn(eager *e, const part *p, int direction)
{
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
    eager_binary(e, EAGER_ADD, p->y, straight, turned);
    eager_free(e, straight);
    eager_free(e, turned);
}

static void copy_columns(eager *e, mat y, mat x, int64_t begin, int64_t end)
{
    if (begin < end && y.data != x.data)
        eager_unary(e, EAGER_COPY, eager_columns(y, begin, end - begin),
                    eager_columns(x, begin, end - begin));
}

/* Whole rows x become y. */
static void rotate(eager *e, const rotary *by, mat x, mat y, mat cos, mat sin)
{
    const int64_t width = 2 * by->half;
    const mat from = eager_columns(x, by->start, width), to = eager_columns(y, by->start, width);
    part p = {from, to, cos, sin, by->half};
    if (by->from_neighbours) {
        p.x = eager_like(e, from);
        eager_permute(e, p.x, from, 1);
    }
    if (by->to_neighbours)
        p.y = eager_like(e, to);
    turn(e, &p, by->direction);
    if (by->to_neighbours) {
        eager_permute(e, to, p.y, 0);
        eager_free(e, p.y);
    }
    if (by->from_neighbours)
        eager_free(e, p.x);
    copy_columns(e, y, x, 0, by->start);
    copy_columns(e, y, x, by->start + width, x.cols);
}

static int positions_and_heads_collapse(const tg_tensor *t)
{
    return t->shape[2] == 1 || tg_stride(t, 1) == t->shape[2] * tg_stride(t, 2);
}

rotary_rows rotary_rows_of(const tg_tensor *x, const tg_tensor *y)
{
    const int64_t heads = x->shape[2];
    const int together = positions_and_heads_collapse(x) && positions_and_heads_collapse(y);
    const int64_t repeat = together ? heads : 1;
    return (rotary_rows){together ? 1 : heads, repeat, x->shape[1] * repeat,
                         together && heads > 1 ? 2 : 1};
}

mat rotary_rows_at(const rotary_rows *r, const tg_tensor *t, int64_t b, int64_t h)
{
    const int type = tg_type_of(t);
    const int64_t at = b * tg_stride(t, 0) + h * tg_stride(t, 2);
    return eager_view(element_at(tg_data(t), type, at), type, r->rows, t->shape[3],
                      tg_stride(t, r->dimension));
}

int64_t rotary_batch_stride(const tg_tensor *t, int batch)
{
    return batch < 0 || t->shape[batch] == 1 ? 0 : tg_stride(t, batch);
}

/* The first `count` positions of a table, each for `repeat` rows. */
static mat table_at(mat table, int64_t count, int64_t half, int64_t repeat)
{
    table.rows = count;
    table.cols = half;
    table.repeat = repeat;
    return table;
}

void rotary_run(eager *e, const rotary *by, const tg_tensor *x, const tg_tensor *y)
{
    if (!x || tg_numel(x) == 0)
        return;
    const rotary_rows rows = rotary_rows_of(x, y);
    for (int64_t b = 0; b < x->shape[0]; b++)
        for (int64_t h = 0; h < rows.groups; h++) {
            rotate(e, by, rotary_rows_at(&rows, x, b, h), rotary_rows_at(&rows, y, b, h),
                   table_at(by->cos(by->tables, b), x->shape[1], by->half, rows.repeat),
                   table_at(by->sin(by->tables, b), x->shape[1], by->half, rows.repeat));
        }
}
