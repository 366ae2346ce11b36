/* tools/tigon/problem/work.c - what a problem amounts to: bytes, operations, memory, its shape in
 * words. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "parts.h"

/* A tensor's largest element in size; 1 if the problem does without it, as an upstream gradient. */
static double largest(const pb_tensor *t)
{
    double most = t ? 0 : 1;
    for (int64_t i = 0; t && i < tg_numel(&t->view); i++)
        most = fmax(most, fabs(pb_get(t, i)));
    return most;
}

static int look_up(const void *arg, const char *name, double *value)
{
    const problem *p = arg;
    const pb_scope scope = {p->op, p->c, p->type};
    if (!pb_scope_lookup(&scope, name, value))
        return 0;
    int i = 0;
    while (i < p->op->ntensors && strcmp(p->op->tensor[i].name, name))
        i++;
    if (i == p->op->ntensors)
        return -1;
    *value = largest(problem_tensor(p, name));
    return 0;
}

int problem_value(const problem *p, const char *expression, double *value, char *error)
{
    return pb_eval(expression, look_up, p, value, error);
}

/* The value of an expression of TG_WORK; 0 if it has none. */
static double work(const problem *p, const char *expression)
{
    double value;
    char error[PB_ERROR];
    return problem_value(p, expression, &value, error) ? 0 : value;
}

static double size_of(const pb_tensor *t)
{
    return (double)tg_numel(&t->view) * (double)tg_type_size(tg_type_of(&t->view));
}

double problem_bytes(const problem *p)
{
    if (p->op->bytes)
        return work(p, p->op->bytes);
    double bytes = 0;
    for (int i = 0; i < p->op->ntensors; i++) {
        const pb_tensor *t = &p->tensor[i];
        if (t->present)
            bytes += size_of(t) * (t->read + t->written);
    }
    return bytes;
}

double problem_flops(const problem *p)
{
    return p->op->flops ? work(p, p->op->flops) : 0;
}

size_t problem_memory(const problem *p)
{
    size_t bytes = 0;
    for (int i = 0; i < p->nbuffers; i++)
        bytes += p->buffer[i].bytes;
    return bytes;
}

/* 1 if a later token sets the same name again. */
static int overridden(const pb_case *c, int i)
{
    return pb_token_of(c, PB_SET, c->token[i].name) != &c->token[i];
}

void problem_shape(const problem *p, char *text, size_t size)
{
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; i < p->c->ntokens && used < size; i++) {
        const pb_token *t = &p->c->token[i];
        if (t->kind != PB_SET || !isupper((unsigned char)t->name[0]) || overridden(p->c, i))
            continue;
        const int n =
            snprintf(text + used, size - used, "%s%s=%s", used ? " " : "", t->name, t->value);
        used += n > 0 ? (size_t)n : 0;
    }
}

double problem_elements(const problem *p, const pb_decl *d)
{
    const pb_scope scope = {p->op, p->c, p->type};
    int64_t shape[TG_MAX_NDIM];
    char error[PB_ERROR];
    const int ndim = pb_scope_shape(&scope, d->shape, shape, error);
    double n = ndim >= 0;
    for (int i = 0; i < ndim; i++)
        n *= (double)shape[i];
    return n;
}
