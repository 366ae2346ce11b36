/* tools/tigon/profile/report.c - the launches of a profile, from the tables
 * that the model wrote. */
#include "profile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/json.h"
#include "share/csv.h"
#include "share/steady.h"

enum { FIELDS = 48, LINE = 2048, LAUNCHES = 2048, NAME = 96 };

#define MB_OF_KB (1024 / 1e6)

typedef struct launch {
    char kernel[NAME], bound[NAME], soc[NAME];
    int blocks, rows;               /* rows: of the table of pipes, one a block */
    double task, low, high, first;  /* first: of the same launch in the first call */
    double vec, scalar, mte2, mte3; /* sums over blocks of parts of their time */
    double from_hbm, to_hbm;        /* KB; what L2 wrote back for others is in the latter */
} launch;

/* ---- tables: a line of names, then lines of values ---- */

typedef struct table {
    FILE *file;
    char head[LINE], line[LINE];
    char *names[FIELDS], *values[FIELDS];
} table;

static void split(char *line, char **fields)
{
    int n;
    csv_cut(line, fields, FIELDS - 1, &n);
    fields[n < FIELDS ? n : FIELDS - 1] = NULL;
}

static int table_open(table *t, const char *folder, const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    t->file = fopen(path, "r");
    if (!t->file || !fgets(t->head, sizeof t->head, t->file)) {
        fprintf(stderr, "tigon profile: %s cannot be read\n", path);
        return -1;
    }
    split(t->head, t->names);
    return 0;
}

static int table_next(table *t)
{
    if (!fgets(t->line, sizeof t->line, t->file))
        return fclose(t->file), 0;
    split(t->line, t->values);
    return 1;
}

static const char *text(const table *t, const char *name)
{
    for (int i = 0; t->names[i] && t->values[i]; i++)
        if (!strcmp(t->names[i], name))
            return t->values[i];
    return "";
}

static double number(const table *t, const char *name)
{
    return atof(text(t, name));
}

/* ---- launches ---- */

/* The launch of the next line of a table that has one a block, in the order of the launches. */
static launch *next_block(launch *list, int n, int *at)
{
    while (*at + 1 < n && list[*at].rows == list[*at].blocks)
        ++*at;
    list[*at].rows++;
    return &list[*at];
}

static int open_blocks(table *t, const char *folder, const char *name, launch *list, int n)
{
    for (int i = 0; i < n; i++)
        list[i].rows = 0;
    return table_open(t, folder, name);
}

static int read_pipes(const char *folder, launch *list, int n)
{
    table t;
    int at = 0;
    if (open_blocks(&t, folder, "PipeUtilization.csv", list, n))
        return -1;
    while (table_next(&t)) {
        launch *l = next_block(list, n, &at);
        l->vec += number(&t, "aiv_vec_ratio");
        l->scalar += number(&t, "aiv_scalar_ratio");
        l->mte2 += number(&t, "aiv_mte2_ratio");
        l->mte3 += number(&t, "aiv_mte3_ratio");
    }
    return 0;
}

static int read_memory(const char *folder, launch *list, int n)
{
    table t;
    int at = 0;
    if (open_blocks(&t, folder, "Memory.csv", list, n))
        return -1;
    while (table_next(&t)) {
        launch *l = next_block(list, n, &at);
        l->from_hbm += number(&t, "read_main_memory_datas(KB)");
        l->to_hbm += number(&t, "write_main_memory_datas(KB)");
    }
    return 0;
}

static int read_launches(const char *folder, launch *list)
{
    table t;
    int n = 0;
    if (table_open(&t, folder, "OpBasicInfo.csv"))
        return -1;
    while (table_next(&t)) {
        launch l = {.blocks = (int)number(&t, "Block Dim"),
                    .task = number(&t, "Task Duration(us)"),
                    .low = number(&t, "Task Duration low(us)"),
                    .high = number(&t, "Task Duration high(us)")};
        snprintf(l.kernel, NAME, "%s", text(&t, "Op Name"));
        snprintf(l.bound, NAME, "%s", text(&t, "Bound"));
        snprintf(l.soc, NAME, "%s", text(&t, "Soc"));
        if (n < LAUNCHES)
            list[n++] = l;
    }
    if (read_pipes(folder, list, n) || read_memory(folder, list, n))
        return -1;
    return n;
}

/* What is left of the list is the last call of each operator. Returns how many
 * launches that are. */
static int last_calls(launch *list, int n, const profile_called *calls, int ncalls)
{
    int at = 0, kept = 0;
    for (int c = 0; c + STEADY_CALLS <= ncalls; c += STEADY_CALLS) {
        const int first = at, last = c + STEADY_CALLS - 1;
        for (int i = c; i < last; i++)
            at += calls[i].launches;
        for (int i = 0; i < calls[last].launches && at < n; i++, at++) {
            const double before = i < calls[c].launches ? list[first + i].task : NAN;
            list[kept] = list[at];
            list[kept++].first = before;
        }
    }
    return kept;
}

static void print_text(const launch *list, int n, const char *folder)
{
    printf("\n%-32s %7s %9s %10s %17s %-8s %6s %6s %6s %6s %9s %9s\n", "kernel", "blocks",
           "first us", "steady us", "either reading", "bound", "vector", "scalar", "in", "out",
           "HBM read", "written");
    for (int i = 0; i < n; i++) {
        const launch *l = &list[i];
        const double percent = l->rows ? 100.0 / l->rows : 0;
        printf(
            "%-32s %7d %9.1f %10.1f %8.1f %8.1f %-8s %5.0f%% %5.0f%% %5.0f%% %5.0f%% %9.1f %9.1f\n",
            l->kernel, l->blocks, l->first, l->task, l->low, l->high, l->bound, l->vec * percent,
            l->scalar * percent, l->mte2 * percent, l->mte3 * percent, l->from_hbm * MB_OF_KB,
            l->to_hbm * MB_OF_KB);
    }
    printf("\nsteady: the third call, all columns but the first time. HBM: MB, what L2 has written "
           "back for others with it\nchip %s; more in %s/: *.csv, "
           "lines.csv, pipeline.svg\n",
           n ? list->soc : "?", folder);
}

static void print_json(const launch *list, int n, const char *folder)
{
    json j = json_begin(stdout, 2);
    json_object(&j, NULL);
    json_text(&j, "soc", n ? list->soc : NULL);
    json_text(&j, "folder", folder);
    json_array(&j, "launches");
    for (int i = 0; i < n; i++) {
        const launch *l = &list[i];
        const double mean = l->rows ? 1.0 / l->rows : 0;
        json_object(&j, NULL);
        json_text(&j, "kernel", l->kernel);
        json_int(&j, "blocks", l->blocks);
        json_real(&j, "model_us_first", l->first);
        json_real(&j, "model_us", l->task);
        json_real(&j, "model_us_low", l->low);
        json_real(&j, "model_us_high", l->high);
        json_text(&j, "bound", l->bound);
        json_real(&j, "vector", l->vec * mean);
        json_real(&j, "scalar", l->scalar * mean);
        json_real(&j, "copy_in", l->mte2 * mean);
        json_real(&j, "copy_out", l->mte3 * mean);
        json_real(&j, "hbm_read_mb", l->from_hbm * MB_OF_KB);
        json_real(&j, "hbm_written_mb", l->to_hbm * MB_OF_KB);
        json_close(&j);
    }
    json_close(&j);
    json_close(&j);
    json_end(&j);
}

int profile_report(const char *folder, const profile_called *calls, int ncalls, int as_json)
{
    static launch list[LAUNCHES];
    const int all = read_launches(folder, list);
    if (all < 0)
        return 1;
    const int n = last_calls(list, all, calls, ncalls);
    (as_json ? print_json : print_text)(list, n, folder);
    return 0;
}
