/* tools/tigon/problem/problem.c - makes, converts, resets and frees problems. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parts.h"

/* Remembers all bytes, for problem_reset. */
static int remember(problem *p, char *error)
{
    for (int i = 0; p->guard && i < p->nbuffers; i++) {
        pb_buffer *b = &p->buffer[i];
        b->initial = malloc(b->bytes);
        if (!b->initial)
            return pb_fail(error, "out of memory");
        memcpy(b->initial, b->base, b->bytes);
    }
    return 0;
}

/* Values of inputs and poison of outputs. Integers come first: values may depend on the targets.
 * Those that a forward saves have legal ones until its own are there: a check reads them. */
static int fill(const catalogue *cat, problem *p, int integers, uint64_t seed, char *error)
{
    for (int i = 0; i < p->op->ntensors; i++) {
        const pb_tensor *t = &p->tensor[i];
        if (!t->present || t->over || pb_is_integer(t->decl) != integers)
            continue;
        if (!t->read && p->guard)
            pb_poison(t);
        const int is_filled = t->read && (integers || !pb_is_saved(cat, p->op, t->decl->name));
        if (is_filled && pb_fill(p, t, seed, error))
            return -1;
    }
    return 0;
}

problem *problem_create(const catalogue *cat, const pb_op *op, const pb_case *c,
                        const pb_options *options, char *error)
{
    problem *p = pb_layout(op, c, options->type, options->guard, 0, error);
    if (!p)
        return NULL;
    *error = 0;
    const int failed = (options->most && problem_memory(p) > options->most) ||
                       fill(cat, p, 1, options->seed, error) ||
                       (!options->hollow && (fill(cat, p, 0, options->seed, error) ||
                                             pb_fill_saved(cat, p, options, error))) ||
                       remember(p, error);
    if (!failed)
        return p;
    problem_free(p);
    return NULL;
}

problem *problem_convert(const problem *p, int type, char *error)
{
    problem *q = pb_layout(p->op, p->c, type, p->guard, 1, error);
    if (!q)
        return NULL;
    for (int i = 0; i < p->op->ntensors; i++) {
        const pb_tensor *from = &p->tensor[i], *to = &q->tensor[i];
        if (to->present && to->read)
            pb_copy(to, from);
        else if (to->present)
            pb_poison(to);
    }
    if (remember(q, error)) {
        problem_free(q);
        return NULL;
    }
    return q;
}

void problem_free(problem *p)
{
    if (p)
        problem_leave(p);
    for (int i = 0; p && i < p->nbuffers; i++) {
        free(p->buffer[i].base);
        free(p->buffer[i].initial);
    }
    free(p);
}

void problem_reset(problem *p)
{
    for (int i = 0; i < p->nbuffers; i++)
        if (p->buffer[i].initial)
            memcpy(p->buffer[i].base, p->buffer[i].initial, p->buffer[i].bytes);
}

const void *problem_args(const problem *p)
{
    return p->slot;
}

const pb_tensor *problem_tensor(const problem *p, const char *name)
{
    for (int i = 0; i < p->op->ntensors; i++)
        if (p->tensor[i].present && !strcmp(p->op->tensor[i].name, name))
            return &p->tensor[i];
    return NULL;
}
