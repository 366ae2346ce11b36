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

/* <limit !fill ~roundings ^inside %magnitude $cancelled &coarse, in any order */
static int parse_suffixes(const char *at, pb_decl *d)
{
    static const char stops[] = "<!~^%$&";
    while (*at) {
        char *const into[] = {d->limit,     d->fill,      d->roundings, d->inside,
                              d->magnitude, d->cancelled, d->coarse};
        const char *symbol = strchr(stops, *at++);
        if (!symbol ||
            copy_until(&at, stops, into[symbol - stops], *symbol == '!' ? PB_NAME : PB_EXPR))
            return -1;
    }
    return 0;
}

/* What a case may choose of the type that the schema gives a tensor: T; W, of a weight; G, of what
 * it is added to; else none. */
static void set_type(const tg_arg_info *arg, pb_decl *d)
{
    static const struct {
        const char *rule;
        char symbol;
    } symbols[] = {{"T", 'T'}, {"ANY_OF_F32", 'T'}, {"T_OR_F32", 'G'}, {"FLOAT", 'G'}, {"W", 'W'}};
    const int output = arg->kind == TG_ARG_OUT || arg->kind == TG_ARG_OUT_OPT;
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
        if (!strcmp(symbols[i].rule, arg->types->name))
            d->symbol = symbols[i].symbol == 'W' && output ? 'G' : symbols[i].symbol;
    d->type = arg->types->types[0];
}

/* name[shape]<limit... */
static int parse_decl(pb_op *op, const char *word)
{
    char name[PB_NAME];
    const char *at = word;
    if (copy_until(&at, "[<!~^%$&", name, sizeof name))
        return -1;
    pb_decl *d = NULL;
    for (int i = 0; i < op->ntensors; i++)
        if (!strcmp(op->tensor[i].name, name))
            d = &op->tensor[i];
    if (d && *at == '[') {
        at++;
        if (copy_until(&at, "]", d->shape, sizeof d->shape) || *at++ != ']')
            return -1;
    }
    return d ? parse_suffixes(at, d) : -1;
}

static int parse_args(const struct line *l, pb_op *op, char *error)
{
    for (const char *at = l->text; *(at += strspn(at, " \n\t"));) {
        char word[256];
        if (copy_until(&at, " \n\t", word, sizeof word) || parse_decl(op, word))
            return pb_fail(error, "TG_ARGS(%s): cannot read \"%.60s\", or there is no such tensor",
                           l->name, word);
    }
    return 0;
}

/* The operator with its tensors, as the schema tells. */
static int describe(pb_op *op, int id, const char *group, char *error)
{
    *op = (pb_op){.id = id, .info = tg_op_at(id), .group = group, .flush = flush_of(group)};
    for (int i = 0; i < op->info->nargs; i++) {
        const tg_arg_info *arg = &op->info->args[i];
        pb_decl *d = &op->tensor[op->ntensors];
        if (!arg->shape)
            continue;
        if (op->ntensors++ == PB_ARGS || strlen(arg->shape) >= sizeof d->shape)
            return pb_fail(error, "%s: %s has too long a shape", op->info->name, arg->name);
        d->slot = i;
        snprintf(d->name, sizeof d->name, "%s", arg->name);
        snprintf(d->shape, sizeof d->shape, "%s", arg->shape);
        set_type(arg, d);
    }
    return 0;
}

static pb_op *op_of(catalogue *cat, const char *name)
{
    for (int i = 0; i < cat->nops; i++)
        if (!strcmp(cat->ops[i].info->name, name))
            return &cat->ops[i];
    return NULL;
}

/* "bytes=... flops=... gemm=..." */
static int parse_work(const struct line *l, catalogue *cat, char *error)
{
    pb_op *op = op_of(cat, l->name);
    if (!op)
        return pb_fail(error, "TG_WORK(%s): no such operator", l->name);
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
    cat->ops = calloc((size_t)tg_op_count(), sizeof *cat->ops);
    cat->cases = calloc(LINES + 1, sizeof *cat->cases);
    cat->hard = calloc(LINES + 1, sizeof *cat->hard);
    if (!cat->ops || !cat->cases || !cat->hard)
        return pb_fail(error, "out of memory");
    for (int i = 0; i < LINES; i++)
        for (int id = 0; lines[i].kind == LINE_PROBLEM && id < tg_op_count(); id++)
            if (group_of(tg_op_at(id)->name) == lines[i].name &&
                describe(&cat->ops[cat->nops++], id, lines[i].name, error))
                return -1;
    for (int i = 0; i < LINES; i++) {
        pb_op *op = lines[i].kind == LINE_ARGS ? op_of(cat, lines[i].name) : NULL;
        if (lines[i].kind == LINE_ARGS && !op)
            return pb_fail(error, "TG_ARGS(%s): no such operator", lines[i].name);
        if (op && parse_args(&lines[i], op, error))
            return -1;
    }
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
