/* muon and its parts, plain and in double: the definition. */
#include "muon.h"

static double get(const tg_tensor *t, int64_t i)
{
    return tg_get(tg_data(t), tg_type_of(t), i);
}

static void set(const tg_tensor *t, int64_t i, double value)
{
    tg_set(tg_data(t), tg_type_of(t), i, value);
}

/* ---- momentum ---- */

/* One element: m becomes the next one, the result is what is to be orthogonalised. */
static double momentum_of(double g, double *m, double momentum, int64_t plain)
{
    *m = momentum * *m + (1 - momentum) * g;
    return plain ? *m : momentum * *m + (1 - momentum) * g;
}

static tg_status run_momentum(tg_ctx *ctx, const tg_muon_momentum_args *a)
{
    (void)ctx;
    double scale;
    const int steps = muon_scale(a, &scale);
    for (int64_t i = 0; i < tg_numel(a->update); i++) {
        double m = get(a->m, i), update = 0;
        if (steps) {
            update = momentum_of(get(a->grad, i) * scale, &m, a->momentum, a->plain);
            set(a->m, i, m);
        }
        set(a->update, i, update);
    }
    return TG_OK;
}

/* ---- the update ---- */

static double stepped(double p, double update, double lr, double weight_decay, double factor)
{
    return p * (1 - lr * weight_decay) - lr * factor * update;
}

static void set_param(const tg_tensor *param, int64_t at, const tg_tensor *master,
                      int64_t master_at, double p)
{
    if (master) { /* param is the rounding of what the master has become */
        set(master, master_at, p);
        p = get(master, master_at);
    }
    set(param, at, p);
}

static tg_status run_update(tg_ctx *ctx, const tg_muon_update_args *a)
{
    (void)ctx;
    const int64_t n = muon_steps(a->grad_squares) ? tg_numel(a->param) : 0;
    for (int64_t i = 0; i < n; i++) {
        const double p = get(a->master ? a->master : a->param, i);
        set_param(a->param, i, a->master, i,
                  stepped(p, get(a->update, i), a->lr, a->weight_decay, a->factor));
    }
    return TG_OK;
}

/* ---- Newton-Schulz ---- */

typedef struct iteration {
    int64_t rows, columns, steps;
    double eps, a, b, c;
    double *x, *next, *gram, *polynomial; /* gram: of the shorter side */
} iteration;

/* Element (i, j) of x along its shorter side: a row, or a column. */
static double side(const iteration *t, int64_t i, int64_t j)
{
    return t->rows <= t->columns ? t->x[i * t->columns + j] : t->x[j * t->columns + i];
}

static void normalise(const iteration *t)
{
    const int64_t n = t->rows * t->columns;
    double squares = 0;
    for (int64_t i = 0; i < n; i++)
        squares += t->x[i] * t->x[i];
    const double norm = sqrt(squares + t->eps * t->eps);
    for (int64_t i = 0; i < n; i++)
        t->x[i] /= norm;
}

static void step(iteration *t)
{
    const int wide = t->rows <= t->columns;
    const int64_t side_of = wide ? t->rows : t->columns, other = wide ? t->columns : t->rows;
    for (int64_t i = 0; i < side_of; i++)
        for (int64_t j = 0; j < side_of; j++) {
            double sum = 0;
            for (int64_t k = 0; k < other; k++)
                sum += side(t, i, k) * side(t, j, k);
            t->gram[i * side_of + j] = sum;
        }
    for (int64_t i = 0; i < side_of; i++)
        for (int64_t j = 0; j < side_of; j++) {
            double sum = 0;
            for (int64_t k = 0; k < side_of; k++)
                sum += t->gram[i * side_of + k] * t->gram[k * side_of + j];
            t->polynomial[i * side_of + j] = t->b * t->gram[i * side_of + j] + t->c * sum;
        }
    for (int64_t i = 0; i < side_of; i++)
        for (int64_t j = 0; j < other; j++) {
            double sum = t->a * side(t, i, j);
            for (int64_t k = 0; k < side_of; k++)
                sum += t->polynomial[i * side_of + k] * side(t, k, j);
            t->next[wide ? i * other + j : j * side_of + i] = sum;
        }
    double *const last = t->x;
    t->x = t->next;
    t->next = last;
}

static void iterate(iteration *t)
{
    normalise(t);
    for (int64_t i = 0; i < t->steps; i++)
        step(t);
}

/* Memory for matrices of a size. */
static tg_status begin(tg_ctx *ctx, iteration *t)
{
    const int64_t n = t->rows * t->columns, side = t->rows < t->columns ? t->rows : t->columns;
    t->x = tg_workspace(ctx, (size_t)(2 * n + 2 * side * side) * sizeof(double));
    if (!t->x)
        return TG_ENOMEM;
    t->next = t->x + n;
    t->gram = t->next + n;
    t->polynomial = t->gram + side * side;
    return TG_OK;
}

static tg_status run_newton_schulz(tg_ctx *ctx, const tg_newton_schulz_args *args)
{
    iteration t = {.rows = muon_rows(args->x),
                   .columns = muon_columns(args->x),
                   .steps = args->steps,
                   .eps = args->eps,
                   .a = args->a,
                   .b = args->b,
                   .c = args->c};
    const int64_t n = t.rows * t.columns;
    TG_TRY(begin(ctx, &t));
    for (int64_t i = 0; i < tg_numel(args->x); i += n) {
        for (int64_t j = 0; j < n; j++)
            t.x[j] = get(args->x, i + j);
        iterate(&t);
        for (int64_t j = 0; j < n; j++)
            set(args->y, i + j, t.x[j]);
    }
    return TG_OK;
}

/* ---- the whole ---- */

/* Where element j of matrix `index` lies. */
static int64_t place(const tg_tensor *t, int64_t index, int64_t j)
{
    const int64_t columns = muon_columns(t);
    return muon_offset(t, index) + j / columns * tg_stride(t, t->ndim - 2) + j % columns;
}

static void run_matrix(const tg_muon_args *a, iteration *t, double scale, int64_t index)
{
    const int64_t n = t->rows * t->columns;
    for (int64_t j = 0; j < n; j++) {
        const int64_t at = place(a->m, index, j);
        double m = get(a->m, at);
        t->x[j] =
            momentum_of(get(a->grad, place(a->grad, index, j)) * scale, &m, a->momentum, a->plain);
        set(a->m, at, m);
    }
    iterate(t);
    for (int64_t j = 0; j < n; j++) {
        const int64_t at = place(a->param, index, j);
        const int64_t master_at = a->master ? place(a->master, index, j) : 0;
        const double p = a->master ? get(a->master, master_at) : get(a->param, at);
        set_param(a->param, at, a->master, master_at,
                  stepped(p, t->x[j], a->lr, a->weight_decay, muon_factor(a)));
    }
}

static tg_status run(tg_ctx *ctx, const tg_muon_args *args)
{
    iteration t = {.rows = muon_rows(args->param),
                   .columns = muon_columns(args->param),
                   .steps = args->steps,
                   .eps = args->eps,
                   .a = args->a,
                   .b = args->b,
                   .c = args->c};
    const tg_muon_momentum_args clipping = {.grad_squares = args->grad_squares,
                                            .grad_scale = args->grad_scale,
                                            .max_norm = args->max_norm};
    double scale;
    if (!muon_scale(&clipping, &scale) || tg_numel(args->param) == 0)
        return TG_OK;
    TG_TRY(begin(ctx, &t));
    for (int64_t i = 0; i < muon_matrices(args->param); i++)
        run_matrix(args, &t, scale, i);
    return TG_OK;
}

TG_REF_IMPLS(muon) = {TG_REF_IMPL(muon, run), TG_REF_IMPL(muon_momentum, run_momentum),
                      TG_REF_IMPL(muon_update, run_update),
                      TG_REF_IMPL(newton_schulz, run_newton_schulz), TG_IMPLS_END};
