/* Reads the column `shape` of ops.def. The grammar, whose meaning ops.def tells:
 *
 *   shape = [option "=" value "?"] lists [":" lists]      lists = list {"|" list}
 *   list  = [item {"," item}]                             item  = "*" [name] | "~[" list "]" | sum
 *   sum   = product {"+" product}                         product = word [("*" | "/") word]
 *   word  = a number, or the name of a size or of an option
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "core/shape.h"

typedef struct reader {
    op_shapes *s;
    const tg_op_info *op;
    const char *at;
    int failed;
} reader;

/* Moves past a symbol, and spaces around it, if it is there. */
static int accept(reader *r, char symbol)
{
    r->at += strspn(r->at, " ");
    if (*r->at != symbol)
        return 0;
    r->at++;
    r->at += strspn(r->at, " ");
    return 1;
}

static size_t word_length(const reader *r)
{
    size_t n = 0;
    while (isalnum((unsigned char)r->at[n]) || r->at[n] == '_')
        n++;
    return n;
}

static int fail(reader *r)
{
    r->failed = 1;
    return 0;
}

/* The slot of an option that the next n characters name, -1 if there is none. */
static int option_at(const reader *r, size_t n)
{
    for (int i = 0; i < r->op->nargs; i++) {
        const tg_arg_info *arg = &r->op->args[i];
        if (arg->kind == TG_ARG_I64 && strlen(arg->name) == n && !strncmp(arg->name, r->at, n))
            return i;
    }
    return -1;
}

/* The word that stands here: a number, an option, else a name of `kind`. */
static shape_name word_at(const reader *r, size_t n, shape_kind kind)
{
    const int slot = option_at(r, n);
    if (n && isdigit((unsigned char)*r->at))
        return (shape_name){r->at, (int)n, SHAPE_NUMBER, strtoll(r->at, NULL, 10)};
    return (shape_name){r->at, (int)n, slot < 0 ? kind : SHAPE_OPTION, slot};
}

/* The number of the word among the operator's names, each of which is there once. */
static int read_word(reader *r, shape_kind kind)
{
    op_shapes *s = r->s;
    const size_t n = word_length(r);
    const shape_name word = word_at(r, n, kind);
    if ((n == 0 && kind != SHAPE_SEVERAL) || (kind == SHAPE_SEVERAL && word.kind != kind))
        return fail(r);
    r->at += n;
    for (int i = 0; i < s->names; i++) {
        const shape_name *known = &s->name[i];
        if ((size_t)known->length == n && !strncmp(known->text, word.text, n))
            return known->kind == word.kind ? i : fail(r);
    }
    if (s->names == SHAPE_NAMES)
        return fail(r);
    if (word.kind >= SHAPE_OPTION)
        s->fixed |= 1u << s->names;
    s->name[s->names] = word;
    return s->names++;
}

static int read_sum(reader *r)
{
    shape_sum sum = {0};
    do {
        if (sum.count == SHAPE_TERMS)
            return fail(r);
        const unsigned bit = 1u << sum.count;
        uint8_t *term = sum.names[sum.count++];
        term[0] = (uint8_t)read_word(r, SHAPE_SIZE);
        const int quotient = accept(r, '/');
        sum.quotients |= quotient ? (uint8_t)bit : 0;
        term[1] = quotient || accept(r, '*') ? (uint8_t)read_word(r, SHAPE_SIZE) : SHAPE_NONE;
    } while (accept(r, '+'));
    if (sum.count == 1 && sum.names[0][1] == SHAPE_NONE)
        return sum.names[0][0];
    for (int i = 0; i < r->s->sums; i++)
        if (!memcmp(&r->s->sum[i], &sum, sizeof sum))
            return SHAPE_NAMES + i;
    if (r->s->sums == SHAPE_SUMS)
        return fail(r);
    r->s->sum[r->s->sums] = sum;
    return SHAPE_NAMES + r->s->sums++;
}

static shape_list read_list(reader *r);

/* The number of the first of these lists among those of the operator, where the same
 * ones are there once. */
static int add_lists(reader *r, const shape_list *lists, size_t count)
{
    op_shapes *s = r->s;
    const int first = s->lists;
    for (int i = 0; i + (int)count <= first; i++)
        if (!memcmp(&s->list[i], lists, count * sizeof *lists))
            return i;
    if (first + (int)count > SHAPE_LISTS)
        return fail(r);
    memcpy(&s->list[first], lists, count * sizeof *lists);
    s->lists += (int)count;
    return first;
}

static void read_item(reader *r, shape_list *list)
{
    const int several = accept(r, '*'), as_many = !several && accept(r, '~');
    if (!several && !as_many) {
        if (list->count == TG_MAX_NDIM)
            fail(r);
        else
            list->dim[list->count++] = (uint8_t)read_sum(r);
        return;
    }
    if (list->at != SHAPE_NONE || (as_many && !accept(r, '[')))
        fail(r);
    list->at = list->count;
    list->as_many = (uint8_t)as_many;
    if (several) {
        list->several = (uint8_t)read_word(r, SHAPE_SEVERAL);
        return;
    }
    const shape_list inner = read_list(r);
    list->several = (uint8_t)add_lists(r, &inner, 1);
    if (!accept(r, ']'))
        fail(r);
}

static shape_list read_list(reader *r)
{
    shape_list list = {.at = SHAPE_NONE};
    r->at += strspn(r->at, " ");
    if (strchr("|:]", *r->at)) /* or the end */
        return list;
    do
        read_item(r, &list);
    while (!r->failed && accept(r, ','));
    return list;
}

static shape_range read_lists(reader *r)
{
    shape_list lists[TG_MAX_NDIM];
    size_t count = 0;
    do {
        lists[count] = read_list(r);
        r->failed |= ++count == TG_MAX_NDIM;
    } while (!r->failed && accept(r, '|'));
    return (shape_range){(uint8_t)add_lists(r, lists, count), (uint8_t)count};
}

/* The value of an option: a number, or the name of a choice. */
static int64_t read_value(reader *r, const tg_arg_info *option)
{
    const size_t n = word_length(r);
    const char *at = r->at;
    r->at += n;
    for (const tg_choice *c = option->choices; c && c->name; c++)
        if (strlen(c->name) == n && !strncmp(c->name, at, n))
            return c->value;
    return n && isdigit((unsigned char)*at) ? strtoll(at, NULL, 10) : fail(r);
}

int tg_shape_read(op_shapes *shapes, const tg_op_info *op, const char *text, shape_rule *rule)
{
    reader r = {shapes, op, text, 0};
    *rule = (shape_rule){.option = SHAPE_NONE};
    if (strchr(text, '?')) {
        const size_t n = word_length(&r);
        const int slot = option_at(&r, n);
        r.at += n;
        if (slot < 0 || !accept(&r, '='))
            return -1;
        rule->option = (uint8_t)slot;
        rule->value = read_value(&r, &op->args[slot]);
        if (!accept(&r, '?'))
            return -1;
    }
    rule->yes = read_lists(&r);
    if (rule->option != SHAPE_NONE) {
        if (!accept(&r, ':'))
            return -1;
        rule->no = read_lists(&r);
    }
    return r.failed || *r.at ? -1 : 0;
}
