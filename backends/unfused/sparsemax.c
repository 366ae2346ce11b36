/* sparsemax as an eager framework composes it: sort, cumulative sum, comparison, count,
 * threshold. Sort, cumulative sum and the copies from and to rows are steps of their own here,
 * threaded by rows. */
#include <string.h>

#include "eager.h"

/* Row by row: what a step reads and writes. */
typedef struct step {
    tg_cut cut;     /* a tensor cut along the dimension */
    mat a, out;     /* rows in f32 */
    float *scratch; /* a row a worker */
} step;

static void each_row(eager *e, tg_range_fn fn, step *s)
{
    const int64_t n = s->cut.n, rows = s->cut.outer * s->cut.inner;
    if (e->status == TG_OK)
        unfused_host->parallel_for(e->ctx, rows, n < 32768 ? 32768 / n : 1, fn, s);
}

static float *row(mat m, int64_t r)
{
    return (float *)m.data + r * m.stride;
}

static int64_t first_of(const tg_cut *c, int64_t r)
{
    return r / c->inner * c->outer_step + r % c->inner;
}

static void gather(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const step *s = arg;
    for (int64_t r = begin; r < end; r++)
        for (int64_t j = 0; j < s->cut.n; j++)
            row(s->out, r)[j] =
                (float)element_of(s->cut.data, s->cut.type, first_of(&s->cut, r) + j * s->cut.step);
}

static void scatter(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const step *s = arg;
    for (int64_t r = begin; r < end; r++)
        for (int64_t j = 0; j < s->cut.n; j++)
            set_element(s->cut.data, s->cut.type, first_of(&s->cut, r) + j * s->cut.step,
                        (double)row(s->a, r)[j]);
}

/* Merges two descending runs; NaN goes first, as in frameworks. */
static void merge(const float *a, int64_t na, const float *b, int64_t nb, float *out)
{
    while (na > 0 && nb > 0) {
        const int first = !(*a < *b || *b != *b);
        *out++ = first ? *a : *b;
        a += first;
        na -= first;
        b += !first;
        nb -= !first;
    }
    memcpy(out, na ? a : b, (size_t)(na ? na : nb) * sizeof *out);
}

/* Descending, by merging runs of doubled length from one buffer into the other. */
static void sort(void *arg, int64_t begin, int64_t end, int worker)
{
    const step *s = arg;
    const int64_t n = s->cut.n;
    for (int64_t r = begin; r < end; r++) {
        float *from = row(s->out, r), *to = s->scratch + worker * n;
        memcpy(from, row(s->a, r), (size_t)n * sizeof *from);
        for (int64_t run = 1; run < n; run *= 2) {
            for (int64_t i = 0; i < n; i += 2 * run) {
                const int64_t middle = n - i < run ? n : i + run;
                const int64_t stop = n - i < 2 * run ? n : i + 2 * run;
                merge(from + i, middle - i, from + middle, stop - middle, to + i);
            }
            float *const swap = from;
            from = to;
            to = swap;
        }
        if (from != row(s->out, r))
            memcpy(row(s->out, r), from, (size_t)n * sizeof *from);
    }
}

static void cumulative_sum(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const step *s = arg;
    for (int64_t r = begin; r < end; r++) {
        float sum = 0.0f;
        for (int64_t j = 0; j < s->cut.n; j++)
            row(s->out, r)[j] = sum += row(s->a, r)[j];
    }
}

/* 1 + k z_k > sum of the k largest: 1 or 0 */
static void compare(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const step *s = arg;
    for (int64_t r = begin; r < end; r++)
        for (int64_t j = 0; j < s->cut.n; j++)
            row(s->out, r)[j] = 1.0f + (float)(j + 1) * row(s->a, r)[j] > row(s->out, r)[j];
}

/* (sum of the k largest - 1) / k with k the count of the comparison */
static void pick(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const step *s = arg;
    for (int64_t r = begin; r < end; r++) {
        const float k = *row(s->out, r) > 1.0f ? *row(s->out, r) : 1.0f; /* NaN rows: any */
        *row(s->out, r) = (row(s->a, r)[(int64_t)k - 1] - 1.0f) / k;
    }
}

/* max(a, 0); NaN stays */
static void clamp(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const step *s = arg;
    for (int64_t r = begin; r < end; r++)
        for (int64_t j = 0; j < s->cut.n; j++)
            row(s->out, r)[j] = row(s->a, r)[j] <= 0.0f ? 0.0f : row(s->a, r)[j];
}

/* 1 where y > 0, else 0; NaN where it is NaN */
static void support(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const step *s = arg;
    for (int64_t r = begin; r < end; r++)
        for (int64_t j = 0; j < s->cut.n; j++) {
            const float y = row(s->a, r)[j];
            row(s->out, r)[j] = y <= 0.0f ? 0.0f : 1.0f + (y - y);
        }
}

/* out where a is not 0, else 0 */
static void where(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const step *s = arg;
    for (int64_t r = begin; r < end; r++)
        for (int64_t j = 0; j < s->cut.n; j++) {
            const float kept = row(s->out, r)[j];
            row(s->out, r)[j] = row(s->a, r)[j] == 0.0f ? 0.0f : kept;
        }
}

static int in_rows(const tg_cut *c)
{
    return c->inner == 1 && c->step == 1;
}

static mat view_of(const tg_cut *c)
{
    return eager_view(c->data, c->type, c->outer, c->n, c->outer == 1 ? c->n : c->outer_step);
}

/* The rows in f32: a converted or transposed copy. */
static mat rows_of(eager *e, const tg_cut *c)
{
    const mat m = eager_new(e, TG_F32, c->outer * c->inner, c->n);
    if (in_rows(c))
        eager_unary(e, EAGER_COPY, m, view_of(c));
    else
        each_row(e, gather, &(step){.cut = *c, .out = m});
    return m;
}

/* And back. */
static void put_rows(eager *e, const tg_cut *c, mat m)
{
    if (in_rows(c))
        eager_unary(e, EAGER_COPY, view_of(c), m);
    else
        each_row(e, scatter, &(step){.cut = *c, .a = m});
}

static tg_status forward(tg_ctx *ctx, const tg_sparsemax_forward_args *args)
{
    const tg_cut x = tg_cut_of(args->x, args->dim);
    const tg_cut y = tg_cut_of(args->y, args->dim);
    const int64_t rows = x.outer * x.inner;
    eager e = eager_begin(ctx);
    if (rows * x.n == 0)
        return eager_end(&e);
    const mat z = rows_of(&e, &x), max = eager_new(&e, TG_F32, rows, 1);
    eager_reduce_rows(&e, EAGER_MAX, max, z);
    eager_binary(&e, EAGER_SUB, z, z, max);
    const mat sorted = eager_new(&e, TG_F32, rows, x.n);
    const mat scratch = eager_new(&e, TG_F32, unfused_host->threads(ctx), x.n);
    each_row(&e, sort, &(step){.cut = x, .a = z, .out = sorted, .scratch = scratch.data});
    const mat sums = eager_new(&e, TG_F32, rows, x.n), above = eager_new(&e, TG_F32, rows, x.n);
    each_row(&e, cumulative_sum, &(step){.cut = x, .a = sorted, .out = sums});
    eager_unary(&e, EAGER_COPY, above, sums);
    each_row(&e, compare, &(step){.cut = x, .a = sorted, .out = above});
    const mat tau = eager_new(&e, TG_F32, rows, 1);
    eager_reduce_rows(&e, EAGER_SUM, tau, above);
    each_row(&e, pick, &(step){.cut = x, .a = sums, .out = tau});
    eager_binary(&e, EAGER_SUB, z, z, tau);
    each_row(&e, clamp, &(step){.cut = x, .a = z, .out = z});
    put_rows(&e, &y, z);
    return eager_end(&e);
}

static tg_status backward(tg_ctx *ctx, const tg_sparsemax_backward_args *args)
{
    const tg_cut dy = tg_cut_of(args->dy, args->dim);
    const tg_cut y = tg_cut_of(args->y, args->dim);
    const tg_cut dx = tg_cut_of(args->dx, args->dim);
    const int64_t rows = y.outer * y.inner;
    eager e = eager_begin(ctx);
    if (rows * y.n == 0)
        return eager_end(&e);
    const mat mask = rows_of(&e, &y), g = rows_of(&e, &dy);
    each_row(&e, support, &(step){.cut = y, .a = mask, .out = mask});
    const mat kept = eager_new(&e, TG_F32, rows, y.n);
    eager_unary(&e, EAGER_COPY, kept, g);
    each_row(&e, where, &(step){.cut = y, .a = mask, .out = kept});
    const mat sum = eager_new(&e, TG_F32, rows, 1), count = eager_new(&e, TG_F32, rows, 1);
    eager_reduce_rows(&e, EAGER_SUM, sum, kept);
    eager_reduce_rows(&e, EAGER_SUM, count, mask);
    eager_binary(&e, EAGER_DIV, sum, sum, count);
    eager_binary(&e, EAGER_SUB, g, g, sum);
    each_row(&e, where, &(step){.cut = y, .a = mask, .out = g});
    put_rows(&e, &dx, g);
    return eager_end(&e);
}

UNFUSED_IMPLS(sparsemax) = {
    UNFUSED_IMPL(sparsemax_forward, forward),
    UNFUSED_IMPL(sparsemax_backward, backward),
    TG_IMPLS_END,
};
