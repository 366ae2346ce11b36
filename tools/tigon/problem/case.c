/* tools/tigon/problem/case.c - reads the text of a case into tokens. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parts.h"

/* Settings that belong to the problem rather than to the operator. */
static const char *const own_settings[] = {"pad", "offset", "types", "only", NULL};
static const char *const flags[] = {"nofd",    "hard", "flush",    "daz",
                                    "shifted", "cpu",  "cpu_cuda", NULL};

static int is_among(const char *name, const char *const *names)
{
    while (*names && strcmp(*names, name))
        names++;
    return *names != NULL;
}

int pb_same_group(const char *a, const char *b)
{
    return !strcmp(a, b);
}

int pb_case_is_for(const pb_op *op, const pb_case *c)
{
    for (int i = 0; i < c->ntokens; i++) {
        const pb_token *t = &c->token[i];
        const size_t n = strlen(op->info->name), m = strlen(t->value);
        if (t->kind == PB_SET && !strcmp(t->name, "only") &&
            (m > n || strcmp(op->info->name + n - m, t->value)))
            return 0;
    }
    return pb_same_group(c->group, op->group);
}

static int is_tensor(const pb_op *op, const char *name)
{
    for (int i = 0; i < op->ntensors; i++)
        if (!strcmp(op->tensor[i].name, name))
            return 1;
    return 0;
}

enum { SIZES = 32 };

/* Names of sizes and of types (W, G), each once. */
typedef struct size_names {
    int count;
    char name[SIZES][PB_NAME];
} size_names;

static void add_size(size_names *s, const char *name, size_t n)
{
    if (s->count == SIZES || n >= PB_NAME)
        return;
    snprintf(s->name[s->count], PB_NAME, "%.*s", (int)n, name);
    for (int i = 0; i < s->count; i++)
        if (!strcmp(s->name[i], s->name[s->count]))
            return;
    s->count++;
}

/* Words that begin with a capital; ESIZE and its like are computed, not set. */
static void add_sizes(size_names *s, const char *expression)
{
    for (const char *at = expression; *at;) {
        size_t n = 0;
        while (isalnum((unsigned char)at[n]) || at[n] == '_')
            n++;
        if (n && isupper((unsigned char)*at) && strncmp(at + 1, "SIZE", 4))
            add_size(s, at, n);
        at += n ? n : 1;
    }
}

static void sizes_of(const catalogue *cat, const pb_case *c, size_names *s)
{
    s->count = 0;
    for (int i = 0; i < cat->nops; i++) {
        const pb_op *op = &cat->ops[i];
        if (!pb_same_group(op->group, c->group))
            continue;
        for (int k = 0; k < op->ntensors; k++) {
            const pb_decl *d = &op->tensor[k];
            add_sizes(s, d->shape);
            add_sizes(s, d->limit);
            if (d->symbol && d->symbol != 'T')
                add_size(s, &d->symbol, 1);
        }
    }
    for (int i = 0; i < c->ntokens; i++)
        if (c->token[i].kind == PB_SHAPE)
            add_sizes(s, c->token[i].value);
}

static int check_size(const catalogue *cat, const pb_case *c, const char *name, char *error)
{
    size_names known;
    char list[SIZES * PB_NAME] = "";
    sizes_of(cat, c, &known);
    for (int i = 0; i < known.count; i++) {
        if (!strcmp(known.name[i], name))
            return 0;
        const size_t n = strlen(list);
        snprintf(list + n, sizeof list - n, "%s%s", n ? ", " : "", known.name[i]);
    }
    return pb_fail(error, "%s: no operator of the group has a size \"%s\", expected one of %s",
                   c->group, name, list);
}

/* A number; for the name of a choice, its number takes the place of the name. */
static int check_value(const tg_arg_info *option, const pb_case *c, pb_token *t, char *error)
{
    for (const tg_choice *k = option->choices; k && k->name; k++)
        if (!strcmp(k->name, t->value)) {
            snprintf(t->value, sizeof t->value, "%lld", (long long)k->value);
            return 0;
        }
    char *end;
    strtod(t->value, &end);
    if (end != t->value && !*end)
        return 0;
    return pb_fail(error, "%s: \"%s\": %s is \"%s\", expected %s", c->group, c->text, t->name,
                   t->value, option->choices ? "the name or number of a choice" : "a number");
}

/* The name must mean something to an operator of the group, and an option have a value. */
static int check_token(const catalogue *cat, const pb_case *c, pb_token *t, char *error)
{
    if (t->kind == PB_FLAG)
        return is_among(t->name, flags) ? 0
                                        : pb_fail(error, "%s: \"%s\": there is no flag \"%s\"",
                                                  c->group, c->text, t->name);
    if (t->kind == PB_SET && isupper((unsigned char)t->name[0]))
        return check_size(cat, c, t->name, error);
    if (t->kind == PB_SET && is_among(t->name, own_settings))
        return 0;
    for (int i = 0; i < cat->nops; i++) {
        const pb_op *op = &cat->ops[i];
        if (!pb_same_group(op->group, c->group))
            continue;
        const tg_arg_info *option = t->kind == PB_SET ? pb_option(op->info, t->name) : NULL;
        if (option)
            return check_value(option, c, t, error);
        if (t->kind != PB_SET && is_tensor(op, t->name))
            return 0;
    }
    return pb_fail(error, "%s: \"%s\": no operator of the group has %s \"%s\"", c->group, c->text,
                   t->kind == PB_SET ? "an option" : "a tensor", t->name);
}

static int copy_part(char *into, size_t size, const char *from, size_t n)
{
    if (!n || n >= size)
        return -1;
    memcpy(into, from, n);
    into[n] = 0;
    return 0;
}

/* One word of a case. Its separator tells the kind. */
static int parse_token(const char *word, size_t n, pb_token *t)
{
    memset(t, 0, sizeof *t);
    if (word[0] == '-') {
        t->kind = PB_DROP;
        return copy_part(t->name, sizeof t->name, word + 1, n - 1);
    }
    for (size_t k = 0; k < PB_KINDS; k++) {
        const char *at = pb_separators[k] ? memchr(word, pb_separators[k], n) : NULL;
        if (!at)
            continue;
        t->kind = (pb_token_kind)k;
        size_t rest = n - (size_t)(at + 1 - word);
        if (t->kind == PB_SHAPE) { /* without the closing bracket; [] is no dimension */
            if (!rest || at[rest] != ']')
                return -1;
            if (!--rest)
                return copy_part(t->name, sizeof t->name, word, (size_t)(at - word));
        }
        return copy_part(t->name, sizeof t->name, word, (size_t)(at - word)) |
               copy_part(t->value, sizeof t->value, at + 1, rest);
    }
    t->kind = PB_FLAG;
    return copy_part(t->name, sizeof t->name, word, n);
}

int pb_case_parse(const catalogue *cat, const char *group, const char *text, pb_case *c,
                  char *error)
{
    memset(c, 0, sizeof *c);
    c->group = group;
    if (strlen(text) >= sizeof c->text)
        return pb_fail(error, "%s: the case \"%.40s...\" is too long", group, text);
    strcpy(c->text, text);
    for (const char *at = text; *at;) {
        const size_t n = strcspn(at, " \n\t");
        if (n) {
            pb_token *t = &c->token[c->ntokens];
            if (c->ntokens == PB_TOKENS || parse_token(at, n, t))
                return pb_fail(error, "%s: \"%s\": cannot read \"%.*s\"", group, text, (int)n, at);
            c->ntokens++;
        }
        at += n;
        at += strspn(at, " \n\t");
    }
    for (int i = 0; i < c->ntokens; i++)
        if (check_token(cat, c, &c->token[i], error))
            return -1;
    return 0;
}
