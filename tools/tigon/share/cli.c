/* tools/tigon/share/cli.c - options: see cli.h. */
#include "cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void help(const cli_usage *u)
{
    printf("usage: %s [options]%s%s\n\n%s\n\n", u->command, u->operands ? " " : "",
           u->operands ? u->operands : "", u->summary);
    for (const cli_option *o = u->options; o->name; o++) {
        char left[64];
        snprintf(left, sizeof left, "%s%s%s", o->name, o->value ? " " : "",
                 o->value ? o->value : "");
        printf("  %-22s %s\n", left, o->help);
    }
    printf("  %-22s %s\n", "--help", "this text");
    if (u->notes)
        printf("\n%s\n", u->notes);
}

int cli_error(const cli_usage *u, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%s: ", u->command);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return 2;
}

int cli_exit(int parsed)
{
    return parsed == CLI_HELP ? 0 : 2;
}

/* The option that `arg` gives, with *value behind its '=' (NULL without one). */
static const cli_option *find(const cli_usage *u, const char *arg, const char **value)
{
    const char *equals = strchr(arg, '=');
    const size_t n = equals ? (size_t)(equals - arg) : strlen(arg);
    *value = equals ? equals + 1 : NULL;
    for (const cli_option *o = u->options; o->name; o++)
        if (strlen(o->name) == n && !memcmp(o->name, arg, n))
            return o;
    return NULL;
}

static int store(const cli_usage *u, const cli_option *o, const char *value)
{
    char *end = NULL;
    errno = 0;
    if (o->kind != CLI_FLAG && !*value)
        return cli_error(u, "%s is empty, expected %s", o->name, o->value);
    switch (o->kind) {
    case CLI_FLAG:
        *(int *)o->into = 1;
        return 0;
    case CLI_TEXT:
        *(const char **)o->into = value;
        return 0;
    case CLI_INT:
        *(int64_t *)o->into = strtoll(value, &end, 0);
        break;
    case CLI_REAL:
        *(double *)o->into = strtod(value, &end);
        break;
    case CLI_LIST: {
        cli_list *list = o->into;
        if (list->count == CLI_LIST_MAX)
            return cli_error(u, "%s is given more than %d times", o->name, CLI_LIST_MAX);
        list->items[list->count++] = value;
        return 0;
    }
    }
    if (end == value || *end || errno)
        return cli_error(u, "%s takes a number, not \"%s\"", o->name, value);
    return 0;
}

int cli_parse(const cli_usage *u, int argc, char **argv)
{
    int operands = 0;
    for (int i = 1; i < argc; i++) {
        char *arg = argv[i];
        if (!strcmp(arg, "--help") || !strcmp(arg, "-h")) {
            help(u);
            return CLI_HELP;
        }
        if (!strcmp(arg, "--")) {
            while (++i < argc)
                argv[1 + operands++] = argv[i];
            break;
        }
        if (arg[0] != '-' || !arg[1]) {
            argv[1 + operands++] = arg;
            continue;
        }
        const char *value;
        const cli_option *o = find(u, arg, &value);
        if (!o || (o->kind == CLI_FLAG && value)) {
            cli_error(u, "%s \"%s\"; see %s --help", o ? "no value is taken by" : "no option", arg,
                      u->command);
            return CLI_WRONG;
        }
        if (o->kind != CLI_FLAG && !value && !(value = i + 1 < argc ? argv[++i] : NULL)) {
            cli_error(u, "%s needs %s", arg, o->value);
            return CLI_WRONG;
        }
        if (store(u, o, value))
            return CLI_WRONG;
    }
    if (operands > u->max_operands) {
        cli_error(u, "unexpected \"%s\"; see %s --help", argv[1 + u->max_operands], u->command);
        return CLI_WRONG;
    }
    for (int i = 1; i <= operands; i++)
        if (!*argv[i]) {
            cli_error(u, "a name is empty, expected %s", u->operands);
            return CLI_WRONG;
        }
    return operands;
}

int cli_words(const cli_usage *u, const char *option, char *text, char **word, int max)
{
    int n = 0;
    for (char *next; (next = strsep(&text, ",")); word[n++] = next) {
        if (!*next)
            return cli_error(u, "%s: a name is empty", option), CLI_WRONG;
        if (n == max)
            return cli_error(u, "%s: more than %d names", option, max), CLI_WRONG;
    }
    return n;
}

void cli_use_device(const char *name)
{
    if (name)
        setenv("TIGON_DEVICE", name, 1);
}
