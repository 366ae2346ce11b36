/* group_norm as an eager framework runs its formula: one pass and one temporary a step, f32
 * inside, as under autocast.
 *
 * The same memory is looked at as lines, as channels [batch * channels, spatial] and as groups
 * [batch * groups, size].
 */
#include "eager.h"

/* [batch, channel, spatial dimensions]: a channel is `lines` contiguous lines of `n` elements. */
typedef struct group_shape {
    int64_t batch, groups, width; /* channels of a group */
    int64_t lines, n;
} group_shape;

static group_shape group_shape_of(const tg_tensor *x, int64_t num_groups)
{
    group_shape s = {x->shape[0], num_groups, x->shape[1] / num_groups, 1, 1};
    for (int i = 2; i < x->ndim - 1; i++)
        s.lines *= x->shape[i];
    if (x->ndim > 2)
        s.n = x->shape[x->ndim - 1];
    return s;
}

/* Elements of a group. */
static int64_t group_size(const group_shape *s)
{
    return s->width * s->lines * s->n;
}

static mat as_groups(mat a, const group_shape *s)
{
    return eager_view(a.data, a.type, s->batch * s->groups, group_size(s), group_size(s));
}

static mat as_channels(mat a, const group_shape *s)
{
    const int64_t spatial = s->lines * s->n;
    return eager_view(a.data, a.type, s->batch * s->groups * s->width, spatial, spatial);
}

static int compact(mat lines)
{
    return lines.stride == lines.cols || lines.rows == 1;
}

static mat new_groups(eager *e, const group_shape *s)
{
    return eager_new(e, TG_F32, s->batch * s->groups, group_size(s));
}

/* Groups, as lines like those of a tensor. */
static mat as_lines(mat groups, mat lines)
{
    return eager_view(groups.data, groups.type, lines.rows, lines.cols, lines.cols);
}

/* A tensor as groups in f32: its own memory, or a copy. */
static mat load_groups(eager *e, const tg_tensor *t, const group_shape *s)
{
    const mat lines = eager_rows(t);
    if (lines.type == TG_F32 && compact(lines))
        return as_groups(lines, s);
    const mat copy = new_groups(e, s);
    eager_unary(e, EAGER_COPY, as_lines(copy, lines), lines);
    return copy;
}

/* Where the last step writes to: the tensor itself, or groups that store_groups takes there. */
static mat result_groups(eager *e, const tg_tensor *t, const group_shape *s)
{
    const mat lines = eager_rows(t);
    return compact(lines) ? as_groups(lines, s) : new_groups(e, s);
}

static void store_groups(eager *e, const tg_tensor *t, mat groups)
{
    const mat lines = eager_rows(t);
    if (!compact(lines))
        eager_unary(e, EAGER_COPY, lines, as_lines(groups, lines));
}

/* A vector [channels] as a column, one for each channel of each batch entry. */
static mat spread(eager *e, const tg_tensor *vector, const group_shape *s)
{
    const mat all = eager_new(e, TG_F32, s->batch, s->groups * s->width);
    eager_unary(e, EAGER_COPY, all, eager_vector(vector));
    return eager_view(all.data, TG_F32, all.rows * all.cols, 1, 1);
}

static tg_status forward(tg_ctx *ctx, const tg_group_norm_forward_args *a)
{
    eager e = eager_begin(ctx);
    const group_shape s = group_shape_of(a->x, a->num_groups);
    const mat x = load_groups(&e, a->x, &s), mean = eager_row_mean(&e, x);
    const mat centred = eager_less(&e, x, mean), rstd = eager_row_rstd(&e, centred, a->eps);
    if (a->mean)
        eager_unary(&e, EAGER_COPY, eager_column(a->mean), mean);
    if (a->rstd)
        eager_unary(&e, EAGER_COPY, eager_column(a->rstd), rstd);
    const mat y = result_groups(&e, a->y, &s);
    const mat normal = a->weight || a->bias ? new_groups(&e, &s) : y;
    eager_binary(&e, EAGER_MUL, normal, centred, rstd);
    eager_free(&e, centred);
    const mat scaled = a->weight && a->bias ? new_groups(&e, &s) : y;
    if (a->weight)
        eager_binary(&e, EAGER_MUL, as_channels(scaled, &s), as_channels(normal, &s),
                     spread(&e, a->weight, &s));
    if (a->bias)
        eager_binary(&e, EAGER_ADD, as_channels(y, &s),
                     as_channels(a->weight ? scaled : normal, &s), spread(&e, a->bias, &s));
    store_groups(&e, a->y, y);
    return eager_end(&e);
}

/* ---- backward ---- */

/* out = sum over batch and space */
static void channel_gradient(eager *e, const group_shape *s, const tg_tensor *out, mat terms,
                             int64_t accumulate)
{
    const int64_t channels = s->groups * s->width;
    const mat each = eager_new(e, TG_F32, s->batch * channels, 1);
    eager_reduce_rows(e, EAGER_SUM, each, as_channels(terms, s));
    eager_gradient(e, eager_vector(out),
                   eager_view(each.data, TG_F32, s->batch, channels, channels), accumulate);
}

/* dx = r (m - normal mean(m normal) - mean(m)), normal = (x - mean) r, m = dy weight */
static tg_status backward(tg_ctx *ctx, const tg_group_norm_backward_args *a)
{
    eager e = eager_begin(ctx);
    const group_shape s = group_shape_of(a->x, a->num_groups);
    const mat x = load_groups(&e, a->x, &s), dy = load_groups(&e, a->dy, &s),
              r = eager_column(a->rstd);
    const mat centred = eager_less(&e, x, eager_column(a->mean)), normal = eager_like(&e, x),
              product = eager_like(&e, x);
    eager_binary(&e, EAGER_MUL, normal, centred, r);
    eager_free(&e, centred);
    if (a->dweight) {
        eager_binary(&e, EAGER_MUL, product, dy, normal);
        channel_gradient(&e, &s, a->dweight, product, a->accumulate);
    }
    if (a->dbias)
        channel_gradient(&e, &s, a->dbias, dy, a->accumulate);
    const mat m = a->weight ? eager_like(&e, dy) : dy;
    if (a->weight)
        eager_binary(&e, EAGER_MUL, as_channels(m, &s), as_channels(dy, &s),
                     spread(&e, a->weight, &s));
    eager_binary(&e, EAGER_MUL, product, m, normal);
    const mat along = eager_like(&e, m), less = eager_like(&e, m);
    eager_binary(&e, EAGER_MUL, along, normal, eager_row_mean(&e, product));
    eager_free(&e, normal);
    eager_free(&e, product);
    eager_binary(&e, EAGER_SUB, less, m, along);
    eager_free(&e, along);
    const mat rest = eager_less(&e, less, eager_row_mean(&e, m));
    eager_free(&e, less);
    const mat dx = result_groups(&e, a->dx, &s);
    eager_binary(&e, EAGER_MUL, dx, rest, r);
    store_groups(&e, a->dx, dx);
    return eager_end(&e);
}

UNFUSED_IMPLS(group_norm) = {
    UNFUSED_IMPL(group_norm_forward, forward),
    UNFUSED_IMPL(group_norm_backward, backward),
    TG_IMPLS_END,
};
