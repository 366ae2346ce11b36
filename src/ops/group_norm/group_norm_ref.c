/* group_norm, plainly: the definition in double precision. */
#include <math.h>

#include "group_norm.h"

/* Element i of channel c, counted over all spatial dimensions, of batch entry b. */
static int64_t at(const group_view *v, const group_shape *s, int64_t b, int64_t c, int64_t i)
{
    return b * v->batch + c * v->channel + i / s->n * v->line + i % s->n;
}

static double get(const group_view *v, const group_shape *s, int64_t b, int64_t c, int64_t i)
{
    return tg_get(v->data, v->type, at(v, s, b, c, i));
}

static void set(const group_view *v, const group_shape *s, int64_t b, int64_t c, int64_t i,
                double value)
{
    tg_set(v->data, v->type, at(v, s, b, c, i), value);
}

/* Element i of a vector that may be missing. */
static double get_or(const tg_tensor *vector, int64_t i, double missing)
{
    return vector ? tg_get(tg_data(vector), tg_type_of(vector), i) : missing;
}

static void set_statistic(const tg_tensor *t, int64_t i, double value)
{
    if (t)
        tg_set(tg_data(t), tg_type_of(t), i, value);
}

/* Group g of batch entry b holds channels [g * width, (g + 1) * width). */
static void normalise_group(const tg_group_norm_forward_args *a, const group_shape *s, int64_t b,
                            int64_t g)
{
    const group_view x = group_view_of(a->x, s), y = group_view_of(a->y, s);
    const int64_t first = g * s->width, last = first + s->width, spatial = s->lines * s->n;
    const double count = (double)group_size(s);
    double sum = 0, squares = 0;
    for (int64_t c = first; c < last; c++)
        for (int64_t i = 0; i < spatial; i++)
            sum += get(&x, s, b, c, i);
    const double mean = sum / count;
    for (int64_t c = first; c < last; c++)
        for (int64_t i = 0; i < spatial; i++)
            squares += (get(&x, s, b, c, i) - mean) * (get(&x, s, b, c, i) - mean);
    const double rstd = 1 / sqrt(squares / count + a->eps);
    for (int64_t c = first; c < last; c++)
        for (int64_t i = 0; i < spatial; i++)
            set(&y, s, b, c, i,
                (get(&x, s, b, c, i) - mean) * rstd * get_or(a->weight, c, 1) +
                    get_or(a->bias, c, 0));
    set_statistic(a->mean, b * s->groups + g, mean);
    set_statistic(a->rstd, b * s->groups + g, rstd);
}

static tg_status forward(tg_ctx *ctx, const tg_group_norm_forward_args *a)
{
    (void)ctx;
    const group_shape s = group_shape_of(a->x, a->num_groups);
    for (int64_t b = 0; b < s.batch; b++)
        for (int64_t g = 0; g < s.groups; g++)
            normalise_group(a, &s, b, g);
    return TG_OK;
}

/* (x - mean) rstd */
static double normal(const tg_group_norm_backward_args *a, const group_shape *s,
                     const group_view *x, int64_t b, int64_t c, int64_t i)
{
    const int64_t group = b * s->groups + c / s->width;
    return (get(x, s, b, c, i) - get_or(a->mean, group, 0)) * get_or(a->rstd, group, 0);
}

/* dbias[c] = sum of dy over batch and space; dweight[c] = sum of dy (x - mean) rstd */
static void channel_gradient(const tg_group_norm_backward_args *a, const group_shape *s,
                             const tg_tensor *out, int of_weight)
{
    const group_view x = group_view_of(a->x, s), dy = group_view_of(a->dy, s);
    for (int64_t c = 0; out && c < s->groups * s->width; c++) {
        double sum = a->accumulate ? get_or(out, c, 0) : 0;
        for (int64_t b = 0; b < s->batch; b++)
            for (int64_t i = 0; i < s->lines * s->n; i++)
                sum += get(&dy, s, b, c, i) * (of_weight ? normal(a, s, &x, b, c, i) : 1);
        set_statistic(out, c, sum);
    }
}

/* dx = rstd (m - normal mean(m normal) - mean(m)), m = dy weight, means over the group */
static void group_gradient(const tg_group_norm_backward_args *a, const group_shape *s, int64_t b,
                           int64_t g)
{
    const group_view x = group_view_of(a->x, s), dy = group_view_of(a->dy, s),
                     dx = group_view_of(a->dx, s);
    const int64_t first = g * s->width, last = first + s->width, spatial = s->lines * s->n;
    const double count = (double)group_size(s);
    double sum = 0, product = 0;
    for (int64_t c = first; c < last; c++)
        for (int64_t i = 0; i < spatial; i++) {
            const double m = get(&dy, s, b, c, i) * get_or(a->weight, c, 1);
            sum += m;
            product += m * normal(a, s, &x, b, c, i);
        }
    for (int64_t c = first; c < last; c++)
        for (int64_t i = 0; i < spatial; i++) {
            const double m = get(&dy, s, b, c, i) * get_or(a->weight, c, 1);
            const double rest = m - normal(a, s, &x, b, c, i) * product / count - sum / count;
            set(&dx, s, b, c, i, rest * get_or(a->rstd, b * s->groups + g, 0));
        }
}

static tg_status backward(tg_ctx *ctx, const tg_group_norm_backward_args *a)
{
    (void)ctx;
    const group_shape s = group_shape_of(a->x, a->num_groups);
    channel_gradient(a, &s, a->dweight, 1); /* first: dx may overwrite dy */
    channel_gradient(a, &s, a->dbias, 0);
    for (int64_t b = 0; b < s.batch; b++)
        for (int64_t g = 0; g < s.groups; g++)
            group_gradient(a, &s, b, g);
    return TG_OK;
}

TG_REF_IMPLS(group_norm) = {TG_REF_IMPL(group_norm_forward, forward),
                            TG_REF_IMPL(group_norm_backward, backward), TG_IMPLS_END};
