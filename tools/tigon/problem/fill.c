/* tools/tigon/problem/fill.c - fills inputs: element i of a tensor is a function of seed, case,
 * tensor and i (fills.c), the same in every type and layout. */
#include <stdlib.h>
#include <string.h>

#include "fills.h"

static uint64_t hash_text(uint64_t key, const char *text)
{
    while (*text)
        key = fill_mix(key ^ (unsigned char)*text++);
    return key;
}

/* Flags say how a case is judged; they do not change its values. */
static uint64_t hash_case(uint64_t key, const pb_case *c)
{
    for (int i = 0; i < c->ntokens; i++)
        if (c->token[i].kind != PB_FLAG && c->token[i].kind != PB_DROP)
            key = hash_text(hash_text(key, c->token[i].name), c->token[i].value);
    return key;
}

typedef struct work {
    const filler *f;
    const fill *fill;
} work;

static void fill_row(void *arg, char *row, int64_t first, int64_t cols)
{
    const work *w = arg;
    const size_t size = tg_type_size(w->f->type);
    for (int64_t i = 0; i < cols; i++)
        pb_store(w->f->type, row + (size_t)i * size, w->fill->value(w->f, first + i));
}

static int64_t ignore_index(const problem *p)
{
    const pb_token *t = pb_token_of(p->c, PB_SET, "ignore_index");
    const tg_arg_info *option = pb_option(p->op->info, "ignore_index");
    return t ? strtoll(t->value, NULL, 10) : option ? (int64_t)option->value : 0;
}

int pb_fill(const problem *p, const pb_tensor *t, uint64_t seed, char *error)
{
    const pb_token *token = pb_token_of(p->c, PB_FILL, t->decl->name);
    const char *name = token ? token->value : t->decl->fill;
    if (!name[0])
        name = pb_is_integer(t->decl) ? "index" : "normal";
    const fill *of = fill_by_name(name);
    if (!of)
        return pb_fail(error, "%s: %s: there is no fill \"%s\"", p->c->text, t->decl->name, name);
    filler f = {p, t, tg_type_of(&t->view), hash_text(fill_mix(seed), p->op->group), 0, 1, 0, NULL};
    f.key = hash_text(hash_case(f.key, p->c), t->decl->name);
    f.cols = t->view.ndim && t->shape[t->view.ndim - 1] ? t->shape[t->view.ndim - 1] : 1;
    f.rows = tg_numel(&t->view) / f.cols;
    f.ignored = ignore_index(p);
    const pb_tensor *target = problem_tensor(p, "target");
    if (target && target != t && tg_numel(&target->view) == f.rows && target->limit == f.cols)
        f.target = target;
    pb_each_row(t, fill_row, &(work){&f, of});
    return 0;
}

static void poison_row(void *arg, char *row, int64_t first, int64_t cols)
{
    const size_t size = *(const size_t *)arg;
    (void)first;
    memset(row, 0xFF, (size_t)cols * size);
}

void pb_poison(const pb_tensor *t)
{
    size_t size = tg_type_size(tg_type_of(&t->view));
    pb_each_row(t, poison_row, &size);
}
