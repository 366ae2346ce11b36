/* tools/tigon/trial/perturb.c - inputs moved by roundings, and what the changes of results
 * that follow come to. */
#include <math.h>
#include <string.h>

#include "parts.h"

/* In a case flagged `shifted` the inputs that it fills itself count from each row's largest
 * element: an offset that a row has in common must not cost digits. */
int truth_is_shifted(const problem *p, const pb_tensor *t)
{
    if (!pb_case_flag(p->c, "shifted"))
        return 0;
    for (int i = 0; i < p->c->ntokens; i++)
        if (p->c->token[i].kind == PB_FILL && !strcmp(p->c->token[i].name, t->decl->name))
            return t->decl->symbol == 'T';
    return 0;
}

static double largest(const double *x, int64_t n)
{
    double most = -INFINITY;
    for (int64_t k = 0; k < n; k++)
        most = fmax(most, x[k]);
    return isfinite(most) ? most : 0;
}

/* 1 if what the tensor is multiplied into is rounded to T. */
static int is_inside(const problem *p, const pb_decl *d)
{
    double value = 0;
    char error[PB_ERROR];
    return *d->inside && !problem_value(p, d->inside, &value, error) && value != 0;
}

/* Moves every input element by 0.5 to 1.5 roundings, up or down: of `unit` for tensors whose type
 * follows T or that are factors of what is rounded to it, of f32 for the others. */
void truth_perturb(problem *wide, double unit, uint64_t key)
{
    problem_reset(wide);
    for (int i = 0; i < wide->op->ntensors; i++) {
        const pb_tensor *t = &wide->tensor[i];
        if (!t->present || !t->read || pb_is_integer(t->decl))
            continue;
        const int follows = t->decl->symbol || is_inside(wide, t->decl);
        const double step = follows ? unit : type_unit(TG_F32);
        const double steps[] = {-step, step}; /* chosen without a branch: no one foresees it */
        double *x = f64_data(t), origin = 0;
        const int64_t n = tg_numel(&t->view);
        const int64_t cols = t->view.ndim ? t->shape[t->view.ndim - 1] : 1;
        const int shifted = truth_is_shifted(wide, t);
        for (int64_t k = 0; k < n; k++) {
            const uint64_t bits = random_of(key + (uint64_t)k * 0x9e3779b97f4a7c15u + (uint64_t)i);
            const double size = 0.5 + (double)(bits >> 40) * 0x1p-24;
            if (shifted && k % cols == 0)
                origin = largest(x + k, cols);
            x[k] = origin + (x[k] - origin) * (1 + steps[bits & 1] * size);
        }
    }
}

/* A few draws can miss a change by luck. So an element counts with at least the row's
 * typical change: the smaller of its root mean square, and of the row's typical change
 * relative to the value. */
void truth_smooth(const truth_output *o, double *change)
{
    for (int64_t first = 0; first < o->n; first += o->cols) {
        double squares = 0, logs = 0;
        int64_t counted = 0, relative = 0;
        for (int64_t k = first; k < first + o->cols; k++) {
            if (!(change[k] > 0))
                continue;
            squares += change[k] * change[k];
            counted++;
            if (o->value[k] != 0 && fabs(o->value[k]) <= 0x1p1000) {
                logs += log(change[k] / fabs(o->value[k]));
                relative++;
            }
        }
        if (!counted || !relative)
            continue;
        const double rms = sqrt(squares / (double)counted), typical = exp(logs / (double)relative);
        for (int64_t k = first; k < first + o->cols; k++) {
            const double floor = fmin(rms, typical * fabs(o->value[k]));
            if (floor > change[k])
                change[k] = floor;
        }
    }
}
