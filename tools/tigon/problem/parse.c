/* tools/tigon/problem/parse.c - reads generated/cases.inc, the problem lines of all families, into
 * the catalogue. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parts.h"

typedef enum line_kind {
    LINE_PROBLEM,
    LINE_FLUSH,
    LINE_ARGS,
    LINE_CASE,
    LINE_BENCH,
    LINE_HARD,
    LINE_WORK
} line_kind;

static const struct line {
    line_kind kind;
    const char *name;  /* group or operator */
    const char *title; /* size of TG_BENCH, name of TG_HARD */
    const char *text;
    int number;
} lines[] = {
#define TG_PROBLEM(group) {LINE_PROBLEM, #group, NULL, "", __LINE__},
#define TG_FLUSH(group, size) {LINE_FLUSH, #group, NULL, #size, __LINE__},
#define TG_ARGS(op, text) {LINE_ARGS, #op, NULL, text, __LINE__},
#define TG_CASE(group, text) {LINE_CASE, #group, NULL, text, __LINE__},
#define TG_BENCH(group, size, text) {LINE_BENCH, #group, size, text, __LINE__},
#define TG_HARD(group, title, text) {LINE_HARD, #group, title, text, __LINE__},
#define TG_WORK(op, text) {LINE_WORK, #op, NULL, text, __LINE__},
#include "cases.inc"
    {LINE_PROBLEM, NULL, NULL, NULL, 0}};
enum { LINES = sizeof lines / sizeof *lines - 1 };

/* The group of an operator: the TG_PROBLEM of its name, without _forward or _backward. */
static const char *group_of(const char *op)
{
    for (int i = 0; i < LINES; i++) {
        const size_t n = strlen(lines[i].name);
        if (lines[i].kind == LINE_PROBLEM && !strncmp(op, lines[i].name, n) &&
            (!op[n] || !strcmp(op + n, "_forward") || !strcmp(op + n, "_backward")))
            return lines[i].name;
    }
    return NULL;
}

/* What may be taken for 0 in all of the group's cases. */
static double flush_of(const char *group)
{
    for (int i = 0; i < LINES; i++)
        if (lines[i].kind == LINE_FLUSH && !strcmp(lines[i].name, group))
            return strtod(lines[i].text, NULL);
    return 0;
}

static int slot_of(const tg_op_info *info, const char *name)
{
    for (int i = 0; i < info->nargs; i++)
        if (info->args[i].kind < TG_ARG_F64 && !strcmp(info->args[i].name, name))
            return i;
    return -1;
}

/* Moves past the characters of `text` up to one of `stops`, copying them; -1 if they do not fit. */
static int copy_until(const char **at, const char *stops, char *into, size_t size)
{
    const size_t n = strcspn(*at, stops);
    if (n >= size)
        return -1;
    memcpy(into, *at, n);
    into[n] = 0;
    *at += n;
    return 0;
}

/* Dimensions between brackets; *at stands behind the opening one. A comma within parentheses does
 * not separate. */
int pb_parse_shape(const char **at, pb_decl *d)
{
    while (**at && **at != ']') {
        if (d->ndim == TG_MAX_NDIM)
            return -1;
        size_t n = 0;
        for (int depth = 0; **at && **at != ']' && (depth || **at != ','); (*at)++) {
            depth += (**at == '(') - (**at == ')');
            if (n + 1 == PB_EXPR)
                return -1;
            d->shape[d->ndim][n++] = **at;
        }
        d->shape[d->ndim++][n] = 0;
        *at += **at == ',';
    }
    if (**at != ']')
        return -1;
    (*at)++;
    return 0;
}

/* <limit !fill ~roundings ^inside %magnitude, in any order */
static int parse_suffixes(const char *at, pb_decl *d)
{
    static const char stops[] = "<!~^%";
    while (*at) {
        char *const into[] = {d->limit, d->fill, d->roundings, d->inside, d->magnitude};
        const char *symbol = strchr(stops, *at++);
        if (!symbol ||
            copy_until(&at, stops, into[symbol - stops], *symbol == '!' ? PB_NAME : PB_EXPR))
            return -1;
    }
    return 0;
}

/* name:type[shape]... */
static int parse_decl(const char *word, pb_decl *d)
{
    char type[PB_NAME];
    memset(d, 0, sizeof *d);
    const char *at = word;
    if (copy_until(&at, ":", d->name, sizeof d->name) || *at++ != ':' ||
        copy_until(&at, "[", type, sizeof type) || *at++ != '[' || pb_parse_shape(&at, d))
        return -1;
    if (!type[1] && strchr("TWG", type[0]))
        d->symbol = type[0];
    else if (!(d->type = tg_type_by_name(type)))
        return -1;
    return parse_suffixes(at, d);
}

static int parse_args(const struct line *l, pb_op *op, char *error)
{
    const int id = tg_op_by_name(l->name);
    if (id < 0)
        return pb_fail(error, "TG_ARGS(%s): no such operator", l->name);
    *op = (pb_op){.id = id, .info = tg_op_at(id), .group = group_of(l->name)};
    if (!op->group)
        return pb_fail(error, "TG_ARGS(%s): no TG_PROBLEM has that name", l->name);
    op->flush = flush_of(op->group);
    for (const char *at = l->text; *(at += strspn(at, " \n\t"));) {
        char word[256];
        if (copy_until(&at, " \n\t", word, sizeof word) || op->ntensors == PB_ARGS ||
            parse_decl(word, &op->tensor[op->ntensors]))
            return pb_fail(error, "TG_ARGS(%s): cannot read \"%.60s\"", l->name, word);
        pb_decl *d = &op->tensor[op->ntensors++];
        d->slot = slot_of(op->info, d->name);
        if (d->slot < 0)
            return pb_fail(error, "TG_ARGS(%s): the operator has no tensor \"%s\"", l->name,
                           d->name);
    }
    int expected = 0;
    for (int i = 0; i < op->info->nargs; i++)
        expected += op->info->args[i].kind < TG_ARG_F64;
    if (op->ntensors != expected)
        return pb_fail(error, "TG_ARGS(%s): %d tensors, expected all %d of the operator", l->name,
                       op->ntensors, expected);
    return 0;
}

/* "bytes=... flops=... gemm=..." */
static int parse_work(const struct line *l, catalogue *cat, char *error)
{
    pb_op *op = NULL;
    for (int i = 0; i < cat->nops; i++)
        if (!strcmp(cat->ops[i].info->name, l->name))
            op = &cat->ops[i];
    if (!op)
        return pb_fail(error, "TG_WORK(%s): no TG_ARGS of that operator", l->name);
    for (const char *at = l->text; *(at += strspn(at, " \n\t")); at += strcspn(at, " \n\t")) {
        const size_t n = strcspn(at, "= \n\t");
        const char **into = !strncmp(at, "bytes=", 6)   ? &op->bytes
                            : !strncmp(at, "flops=", 6) ? &op->flops
                            : !strncmp(at, "gemm=", 5)  ? &op->gemm
                                                        : NULL;
        if (!into)
            return pb_fail(error, "TG_WORK(%s): \"%.40s\" is none of bytes= flops= gemm=", l->name,
                           at);
        *into = strndup(at + n + 1, strcspn(at + n + 1, " \n\t"));
    }
    return 0;
}

static int read_lines(catalogue *cat, char *error)
{
    cat->ops = calloc(LINES + 1, sizeof *cat->ops);
    cat->cases = calloc(LINES + 1, sizeof *cat->cases);
    cat->hard = calloc(LINES + 1, sizeof *cat->hard);
    if (!cat->ops || !cat->cases || !cat->hard)
        return pb_fail(error, "out of memory");
    for (int i = 0; i < LINES; i++)
        if (lines[i].kind == LINE_ARGS && parse_args(&lines[i], &cat->ops[cat->nops++], error))
            return -1;
    for (int i = 0; i < LINES; i++) {
        const struct line *l = &lines[i];
        if (l->kind == LINE_WORK && parse_work(l, cat, error))
            return -1;
        if (l->kind != LINE_CASE && l->kind != LINE_BENCH && l->kind != LINE_HARD)
            continue;
        pb_case *c = l->kind == LINE_HARD ? &cat->hard[cat->nhard++] : &cat->cases[cat->ncases++];
        if (pb_case_parse(cat, l->name, l->text, c, error))
            return -1;
        c->bench = l->kind == LINE_BENCH ? l->title : NULL;
        c->hard = l->kind == LINE_HARD ? l->title : NULL;
        c->line = l->number;
    }
    return 0;
}

const catalogue *catalogue_get(char *error)
{
    static catalogue cat;
    static int state; /* 0: not read yet, 1: read, -1: failed */
    static char first_error[PB_ERROR];
    if (!state)
        state = read_lines(&cat, first_error) ? -1 : 1;
    if (state < 0)
        pb_fail(error, "%s", first_error);
    return state < 0 ? NULL : &cat;
}

const pb_op *catalogue_op(const catalogue *cat, int op)
{
    for (int i = 0; i < cat->nops; i++)
        if (cat->ops[i].id == op)
            return &cat->ops[i];
    return NULL;
}
