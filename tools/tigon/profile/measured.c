/* tools/tigon/profile/measured.c - the ten calls in msprof's op_summary*.csv: a row a launch, of
 * whatever ran beside them as well. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "share/csv.h"
#include "share/file.h"
#include "share/steady.h"
#include "ten.h"

enum { COLUMNS = 128 };

/* The columns that are read; a pipe's is a vector core's, or if that has none a cube core's. */
typedef enum column {
    NAME,
    US,
    BEGIN,
    AIV,
    AIC = AIV + TEN_PIPES,
    READ_COLUMNS = AIC + TEN_PIPES
} column;
static const char *const names[READ_COLUMNS] = {
    [NAME] = "Op Name",
    [US] = "Task Duration(us)",
    [BEGIN] = "Task Start Time(us)",
    [AIV + TEN_VECTOR] = "aiv_vec_time(us)",
    [AIV + TEN_IN] = "aiv_mte2_time(us)",
    [AIV + TEN_OUT] = "aiv_mte3_time(us)",
    [AIC + TEN_VECTOR] = "aiv_vec_time(us)", /* a cube core has none */
    [AIC + TEN_IN] = "aic_mte2_time(us)",
    [AIC + TEN_OUT] = "aiv_mte3_time(us)", /* of copies out of L0C the model tells no time */
};

typedef struct row {
    const char *name;
    double begin, us, pipe[TEN_PIPES];
} row;

static double number(const char *text)
{
    char *end;
    const double value = strtod(text, &end);
    return end == text ? NAN : value;
}

static row row_of(char **field, int count, const int *at)
{
    double value[READ_COLUMNS];
    for (int c = US; c < READ_COLUMNS; c++)
        value[c] = at[c] >= 0 && at[c] < count ? number(field[at[c]]) : NAN;
    row r = {.name = field[at[NAME]], .begin = value[BEGIN], .us = value[US]};
    for (int p = 0; p < TEN_PIPES; p++)
        r.pipe[p] = value[AIV + p] > 0 ? value[AIV + p] : value[AIC + p];
    return r;
}

static int by_begin(const void *a, const void *b)
{
    const row *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

/* The rows of a text, which is cut to pieces, in order of time; -1 after a message. */
static int read_rows(const char *csv, char *text, row **rows)
{
    char *field[COLUMNS];
    int count, at[READ_COLUMNS], n = 0, room = 0;
    char *next = csv_cut(text, field, COLUMNS, &count);
    for (int c = 0; c < READ_COLUMNS; c++) {
        at[c] = -1;
        for (int i = 0; i < count && i < COLUMNS; i++)
            if (!strcmp(field[i], names[c]))
                at[c] = i;
    }
    if (at[NAME] < 0 || at[US] < 0)
        return fprintf(stderr,
                       "tigon profile: %s has no columns \"%s\" and \"%s\", expected msprof's "
                       "op_summary\n",
                       csv, names[NAME], names[US]),
               -1;
    while (*next) {
        next = csv_cut(next, field, COLUMNS, &count);
        if (count <= at[NAME] || count <= at[US] || count > COLUMNS)
            continue;
        if (n == room) {
            room = 2 * room + 64;
            row *more = realloc(*rows, (size_t)room * sizeof **rows);
            if (!more)
                return fputs("tigon profile: no memory\n", stderr), -1;
            *rows = more;
        }
        (*rows)[n++] = row_of(field, count, at);
    }
    if (at[BEGIN] >= 0 && n)
        qsort(*rows, (size_t)n, sizeof **rows, by_begin);
    return n;
}

/* One call's launches, three times, from row `from` on; the row behind them, or -1: not there. */
static int find_call(const row *rows, int n, int from, const ten_time *modelled, ten_time *to)
{
    int at = from;
    *to = (ten_time){.launches = 0};
    for (int i = 0; i < STEADY_CALLS * modelled->launches; i++, at++) {
        const int launch = i % modelled->launches;
        const size_t length = strlen(modelled->kernel[launch]);
        while (at < n && strncmp(rows[at].name, modelled->kernel[launch], length) != 0)
            at++;
        if (at == n)
            return *to = (ten_time){.launches = 0}, -1;
        if (i / modelled->launches < STEADY_CALLS - 1)
            continue;
        to->launches++;
        to->us += rows[at].us;
        for (int p = 0; p < TEN_PIPES; p++)
            to->pipe[p] += rows[at].pipe[p];
    }
    return at;
}

/* The rows of a file, and the text that they point into, to be freed; -1 after a message. */
static int open_rows(const char *csv, char **text, row **rows)
{
    *rows = NULL;
    *text = file_text(csv, NULL);
    if (!*text)
        return fprintf(stderr, "tigon profile: %s: %s\n", csv, strerror(errno)), -1;
    return read_rows(csv, *text, rows);
}

int ten_unreadable(const char *csv)
{
    char *text;
    row *rows;
    const int n = open_rows(csv, &text, &rows);
    free(rows);
    free(text);
    return n < 0;
}

int ten_measured(const char *csv, const ten_time *modelled, ten_time *to)
{
    char *text;
    row *rows;
    const int n = open_rows(csv, &text, &rows);
    int at = 0, found = 0;
    for (int i = 0; i < TEN_CALLS && n >= 0; i++) {
        const int behind = find_call(rows, n, at, &modelled[i], &to[i]);
        found += behind >= 0;
        at = behind >= 0 ? behind : at;
    }
    free(rows);
    free(text);
    if (n >= 0 && !found)
        fprintf(stderr, "tigon profile: %s has none of the launches of `tigon profile --ten`\n",
                csv);
    return n < 0 || !found;
}
