/* tools/tigon/ub_check/parse.c - sizes, types and buffers as they stand on the command line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ub_check.h"

enum { MOST_ROWS = 1 << 30 }; /* far above what a launch has, and products of two still fit */

/* A number at *text, which moves behind it; -1 if there is none. */
static int64_t number(const char **text)
{
    char *end;
    if (**text < '0' || **text > '9')
        return -1;
    const int64_t n = strtoll(*text, &end, 10);
    *text = end;
    return n;
}

int ub_parse_size(const char *text, ub_size *size)
{
    *size = (ub_size){1, 0};
    for (int first = 1;; first = 0) {
        const int64_t n = number(&text);
        if (n < 1 || n > MOST_ROWS)
            return 0;
        if (!first)
            size->rows *= size->columns;
        size->columns = n;
        if (size->rows > MOST_ROWS)
            return 0;
        if (!*text)
            return 1;
        if (*text++ != 'x')
            return 0;
    }
}

/* Moves behind `word` if it stands at *text. */
static int skip(const char **text, const char *word)
{
    const size_t n = strlen(word);
    const int there = !strncmp(*text, word, n);
    *text += there ? n : 0;
    return there;
}

static int parse_per(const char **text, tg_ub_per *per)
{
    static const char *const names[] = {[TG_UB_ELEMENT] = "element",
                                        [TG_UB_ROW] = "row",
                                        [TG_UB_COLUMN] = "column",
                                        [TG_UB_FIXED] = "fixed"};
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
        if (skip(text, names[i])) {
            *per = (tg_ub_per)i;
            return 1;
        }
    return 0;
}

static int fits_int(int64_t n)
{
    return n >= 0 && n <= INT32_MAX;
}

int ub_parse_buffer(const char *text, ub_declared *to)
{
    const char *const colon = strchr(text, ':');
    const int i = to->kernel.nbuffers;
    if (!colon || colon == text || colon - text >= UB_NAME || i == TG_UB_BUFFERS)
        return 0;
    snprintf(to->name[i], UB_NAME, "%.*s", (int)(colon - text), text);
    tg_ub_buffer b = {.name = to->name[i], .to = TG_UB_LAST};
    int64_t from = 0, until = TG_UB_LAST, copies = 1;
    text = colon + 1;
    const int64_t bytes = number(&text);
    if (bytes < 1 || !fits_int(bytes) || (skip(&text, "x") && (copies = number(&text)) < 1))
        return 0;
    if (skip(&text, "/") && !parse_per(&text, &b.per))
        return 0;
    if (skip(&text, "@")) {
        from = until = number(&text);
        if (skip(&text, "-"))
            until = number(&text);
    }
    if (*text || !fits_int(from) || !fits_int(until) || !fits_int(copies))
        return 0;
    b.bytes = (int)bytes;
    b.copies = (int)copies;
    b.from = (int)from;
    b.to = (int)until;
    to->buffer[i] = b;
    to->kernel.buffers = to->buffer;
    to->kernel.nbuffers++;
    return 1;
}
