/* tools/tigon/trial/own.c - the tolerance of an unfused implementation, whose formula may be less
 * stable than the definition: what its own results move by when its inputs, and what each of its
 * steps computes, move by a rounding. */
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "parts.h"

/* With one class results move by a single rounding of `lse`, which half of the draws do not make,
 * and no neighbour in the row makes up for it. */
enum { DRAWS = 48 };

/* eager_shake() of backends/unfused/eager.h; NULL if the implementation's file has none. */
typedef void shake_fn(tg_ctx *ctx, uint64_t key);

static shake_fn *shake_of(int impl)
{
    const char *vendor = tg_impl_at(impl)->backend;
    int i = 0;
    while (strcmp(tg_backend_at(i)->vendor, vendor))
        i++;
    void *file = dlopen(tg_backend_at(i)->module_path, RTLD_LAZY | RTLD_NOLOAD);
    shake_fn *shake = NULL;
    if (file)
        *(void **)&shake = dlsym(file, "eager_shake");
    return shake;
}

/* One run of the implementation on the inputs of t->wide, rounded to T. Results of the first run go
 * to `first`, the differences of later ones to `own`. */
static int run_own(truth *t, int impl, double *const *first, int is_first)
{
    char error[PB_ERROR];
    problem *p = problem_convert(t->wide, t->type, error);
    const int ran = p && !tg_impl_run(t->ctx, impl, problem_args(p));
    for (int i = 0; ran && i < t->wide->op->ntensors; i++)
        for (int64_t k = 0; first[i] && k < t->out[i].n; k++) {
            const double x = pb_get(&p->tensor[i], k), change = fabs(x - first[i][k]);
            if (is_first)
                first[i][k] = x;
            else if (change > t->out[i].own[k] && change <= 0x1p1000)
                t->out[i].own[k] = change;
        }
    problem_free(p);
    return ran;
}

static int run_shaken(truth *t, int impl, shake_fn *shake, double *const *first, int draw)
{
    const uint64_t key = random_of(t->seed + (uint64_t)draw + 555);
    truth_perturb(t->wide, type_unit(TG_F32), key);
    if (shake)
        shake(t->ctx, key);
    const int ran = run_own(t, impl, first, 0);
    if (shake)
        shake(t->ctx, 0);
    return ran;
}

static int measure_own(truth *t, int impl)
{
    shake_fn *shake = shake_of(impl);
    double *first[PB_ARGS] = {NULL};
    int ran = 1;
    for (int i = 0; i < t->wide->op->ntensors; i++)
        if (t->out[i].condition) {
            const size_t n = (size_t)t->out[i].n + 1;
            first[i] = calloc(n, sizeof(double));
            t->out[i].own = calloc(n, sizeof(double));
            ran = ran && first[i] && t->out[i].own;
        }
    ran = ran && run_own(t, impl, first, 1);
    for (int draw = 0; ran && draw < DRAWS; draw++)
        ran = run_shaken(t, impl, shake, first, draw);
    problem_reset(t->wide);
    for (int i = 0; i < t->wide->op->ntensors; i++) {
        if (ran && first[i])
            truth_smooth(&t->out[i], t->out[i].own);
        free(first[i]);
    }
    return ran;
}

double truth_own_tolerance(truth *t, int impl, int output, const truth_bound *b, int64_t i)
{
    const truth_output *o = &t->out[output];
    if (!o->own && !measure_own(t, impl))
        return -1;
    return truth_tolerance(o, b, i) + b->condition * fmax(0, o->own[i] - o->condition[i]);
}
