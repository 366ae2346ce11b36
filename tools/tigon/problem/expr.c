/* tools/tigon/problem/expr.c - expressions of sizes and work: + - * / == ?:
 * min() max() and names. */
#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parts.h"

int pb_fail(char *error, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(error, PB_ERROR, format, list);
    va_end(list);
    return -1;
}

typedef struct reader {
    const char *text, *at;
    pb_lookup lookup;
    const void *arg;
    char *error;
    int failed;
} reader;

static double sum(reader *r);

static double stop(reader *r, const char *what)
{
    if (!r->failed)
        pb_fail(r->error, "expression \"%s\": %s", r->text, what);
    r->failed = 1;
    return 0;
}

static int accept(reader *r, char symbol)
{
    if (*r->at != symbol)
        return 0;
    r->at++;
    return 1;
}

/* sqrt(a), min(a,b) and max(a,b), after the name */
static double call(reader *r, const char *name)
{
    const double a = sum(r);
    if (!strcmp(name, "sqrt"))
        return accept(r, ')') ? sqrt(a) : stop(r, "a parenthesis is not closed");
    if (!accept(r, ','))
        return stop(r, "a comma is missing");
    const double b = sum(r);
    if (!accept(r, ')'))
        return stop(r, "a parenthesis is not closed");
    if (!strcmp(name, "min"))
        return a < b ? a : b;
    if (!strcmp(name, "max"))
        return a > b ? a : b;
    return stop(r, "only sqrt, min and max are functions");
}

static double atom(reader *r)
{
    if (accept(r, '-'))
        return -atom(r);
    if (accept(r, '(')) {
        const double value = sum(r);
        return accept(r, ')') ? value : stop(r, "a parenthesis is not closed");
    }
    if (isdigit((unsigned char)*r->at) || *r->at == '.') {
        char *end;
        const double value = strtod(r->at, &end);
        r->at = end;
        return value;
    }
    char name[PB_NAME];
    size_t n = 0;
    while ((isalnum((unsigned char)*r->at) || *r->at == '_') && n + 1 < sizeof name)
        name[n++] = *r->at++;
    name[n] = 0;
    if (!n)
        return stop(r, "a name or number is missing");
    if (accept(r, '('))
        return call(r, name);
    double value;
    if (!r->lookup(r->arg, name, &value))
        return value;
    if (!r->failed)
        pb_fail(r->error, "expression \"%s\": %s has no value", r->text, name);
    r->failed = 1;
    return 0;
}

static double product(reader *r)
{
    double value = atom(r);
    for (;;) {
        if (accept(r, '*'))
            value *= atom(r);
        else if (accept(r, '/'))
            value /= atom(r);
        else
            return value;
    }
}

static double terms(reader *r)
{
    double value = product(r);
    for (;;) {
        if (accept(r, '+'))
            value += product(r);
        else if (accept(r, '-'))
            value -= product(r);
        else
            return value;
    }
}

/* terms [== terms] [? sum : sum] */
static double sum(reader *r)
{
    double value = terms(r);
    if (r->at[0] == '=' && r->at[1] == '=') {
        r->at += 2;
        value = value == terms(r);
    }
    if (accept(r, '?')) {
        const double yes = sum(r);
        if (!accept(r, ':'))
            return stop(r, "a : is missing after ?");
        const double no = sum(r);
        value = value != 0 ? yes : no;
    }
    return value;
}

int pb_eval(const char *text, pb_lookup lookup, const void *arg, double *value, char *error)
{
    reader r = {text, text, lookup, arg, error, 0};
    *value = sum(&r);
    if (!r.failed && *r.at)
        stop(&r, "there is more behind its end");
    return r.failed ? -1 : 0;
}
