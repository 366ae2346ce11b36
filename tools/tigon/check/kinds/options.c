/* tools/tigon/check/kinds/options.c - values of options between and beyond the usual, and types of
 * tensors with them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kinds.h"

/* ---- values ---- */

static int add(char value[][PB_NAME], int n, double x)
{
    snprintf(value[n], PB_NAME, "%.9g", x);
    for (int i = 0; i < n; i++)
        if (!strcmp(value[i], value[n]))
            return n;
    return n < KINDS_VALUES - 1 ? n + 1 : n;
}

int kinds_values(const tg_arg_info *option, char value[][PB_NAME])
{
    static const double reals[] = {0, 1, 0.37, 0.63, 1.7, 3.1, 12.5, 0.05, -0.37, -1, -2.5};
    static const double integers[] = {0, 1, 2, 3, 5, 17, -1, -7, 1000};
    int n = 0;
    for (const tg_choice *c = option->choices; c && c->name; c++)
        n = add(value, n, (double)c->value);
    if (option->choices)
        return n;
    const int is_real = option->kind == TG_ARG_F64;
    const int count = is_real ? sizeof reals / sizeof *reals : sizeof integers / sizeof *integers;
    for (int i = 0; i < count; i++)
        n = add(value, n, is_real ? reals[i] : integers[i]);
    if (is_real && option->value != 0 && !option->default_text) {
        n = add(value, n, option->value * 0.37);
        n = add(value, n, option->value * 30);
    }
    return n;
}

static int sets(const pb_case *c, const char *name)
{
    for (int i = 0; i < c->ntokens; i++)
        if (c->token[i].kind == PB_SET && !strcmp(c->token[i].name, name))
            return 1;
    return 0;
}

/* ---- one option after another ---- */

enum { MOST = 48, EACH = 3 };

/* The value with bases that set the option, or do not, beginning at another one each time, until
 * `most` were taken. */
static int try_value(trier *t, const tg_arg_info *option, const char *value, const base **from,
                     int n, int first, int setting, int most)
{
    int tried = 0;
    for (int i = 0; i < n && tried < most; i++) {
        const base *b = from[(first + i) % n];
        if (sets(&b->c, option->name) != setting)
            continue;
        pb_case c = b->c;
        kinds_set(&c, option->name, value);
        tried += kinds_check(t, &c, b->type);
    }
    return tried;
}

/* Cases that set the option have what it works on. */
static void try_option(trier *t, const tg_arg_info *option, const base **from, int n)
{
    char value[KINDS_VALUES][PB_NAME];
    const int values = kinds_values(option, value);
    for (int v = 0; v < values; v++) {
        const int first = v * EACH;
        const int tried = try_value(t, option, value[v], from, n, first, 1, EACH - 1);
        try_value(t, option, value[v], from, n, first, 0, EACH - tried);
    }
}

/* ---- all at once ---- */

/* Each option gets a value with probability 1/2. */
static void draw(const trier *t, uint64_t *state, pb_case *c)
{
    for (int i = 0; i < t->op->info->nargs; i++) {
        const tg_arg_info *option = &t->op->info->args[i];
        char value[KINDS_VALUES][PB_NAME];
        if (option->kind < TG_ARG_F64 || random_next(state) % 2)
            continue;
        const int n = kinds_values(option, value);
        kinds_set(c, option->name, value[random_next(state) % (uint64_t)n]);
    }
}

static int has_options(const trier *t)
{
    int n = 0;
    for (int i = 0; i < t->op->info->nargs; i++)
        n += t->op->info->args[i].kind >= TG_ARG_F64;
    return n > 1;
}

static void try_together(trier *t, const base **from, int n)
{
    enum { DRAWS = 24, TRIES = 20 * DRAWS };
    uint64_t state = (uint64_t)t->ck->s.seed;
    for (int tried = 0, i = 0; tried < DRAWS && i < TRIES && has_options(t); i++) {
        const base *b = from[random_next(&state) % (uint64_t)n];
        pb_case c = b->c;
        draw(t, &state, &c);
        tried += kinds_check(t, &c, b->type);
    }
}

void kind_options(trier *t)
{
    for (int k = 0; k < DATA_TYPES; k++) {
        const base *from[MOST];
        const int n = bases_of(t, data_types[k], from, MOST);
        for (int i = 0; n && i < t->op->info->nargs; i++)
            if (t->op->info->args[i].kind >= TG_ARG_F64)
                try_option(t, &t->op->info->args[i], from, n);
        if (n)
            try_together(t, from, n);
    }
}

/* ---- types of tensors ---- */

static void try_types(trier *t, const base *b, const pb_case *c)
{
    for (int i = 0; i < t->op->ntensors; i++) {
        const pb_decl *d = &t->op->tensor[i];
        if (pb_is_integer(d) || pb_case_drops(c, d->name))
            continue;
        for (int k = 0; k < DATA_TYPES; k++) {
            pb_case other = *c;
            pb_case_remove(&other, PB_TYPE, d->name);
            if (d->symbol == 'W' || d->symbol == 'G')
                kinds_set(&other, d->symbol == 'W' ? "W" : "G", tg_type_name(data_types[k]));
            else
                pb_case_add(&other, PB_TYPE, d->name, tg_type_name(data_types[k]));
            kinds_check(t, &other, b->type);
        }
    }
}

/* With each choice of an option; as_given: tensors keep their types. */
static void try_choices(trier *t, const base *b, int as_given)
{
    for (int i = 0; i < t->op->info->nargs; i++) {
        const tg_arg_info *option = &t->op->info->args[i];
        char value[KINDS_VALUES][PB_NAME];
        const int n = option->choices ? kinds_values(option, value) : 0;
        for (int v = 0; v < n; v++) {
            pb_case c = b->c;
            kinds_set(&c, option->name, value[v]);
            if (as_given)
                kinds_check(t, &c, b->type);
            else
                try_types(t, b, &c);
        }
    }
}

/* Each tensor of the richest case in each type that it may have; and some other cases, in which
 * fewer roundings hide what an option does. */
void kind_types(trier *t)
{
    enum { OTHERS = 6 };
    for (int k = 0; k < DATA_TYPES; k++) {
        const base *other[OTHERS], *rich = bases_richest(t, data_types[k]);
        if (!rich)
            continue;
        try_types(t, rich, &rich->c);
        try_choices(t, rich, 0);
        const int n = bases_of(t, data_types[k], other, OTHERS);
        for (int i = 0; i < n; i++)
            try_choices(t, other[i], 1);
    }
}
