/* tools/tigon/plot/plot.c - `tigon plot`: draws what tigon bench and the trainer write. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "charts.h"
#include "formats/json.h"
#include "share/cli.h"
#include "share/csv.h"
#include "share/file.h"

static void json_list(json *j, const char *key, const double *values, int n)
{
    json_array(j, key);
    for (int i = 0; i < n; i++)
        json_real(j, NULL, values[i]);
    json_close(j);
}

static int print_json(const charts *all)
{
    json j = json_begin(stdout, 2);
    json_array(&j, NULL);
    for (int i = 0; i < all->count; i++) {
        const chart *c = &all->chart[i];
        json_object(&j, NULL);
        json_text(&j, "title", c->title);
        json_text(&j, "kind", c->bars ? "bars" : "lines");
        json_text(&j, "x_label", c->x_label);
        json_text(&j, "y_label", c->y_label);
        json_array(&j, "labels");
        for (int k = 0; k < c->nlabels; k++)
            json_text(&j, NULL, c->labels[k]);
        json_close(&j);
        json_array(&j, "series");
        for (int k = 0; k < c->nseries; k++) {
            const series *s = &c->series[k];
            json_object(&j, NULL);
            json_text(&j, "name", s->name);
            json_list(&j, "x", s->x, s->count);
            json_list(&j, "y", s->y, s->count);
            json_list(&j, "low", s->low, s->count);
            json_list(&j, "high", s->high, s->count);
            json_close(&j);
        }
        json_close(&j);
        json_close(&j);
    }
    json_close(&j);
    return json_end(&j) ? 1 : 0;
}

/* runs/a.jsonl -> a.svg, in the current directory; standard input -> tigon.svg */
static void default_output(const char *file, char *out, size_t size)
{
    const char *slash = strrchr(file, '/');
    const char *name = !strcmp(file, "-") ? "tigon" : slash ? slash + 1 : file;
    const char *dot = strrchr(name, '.');
    snprintf(out, size, "%.*s.svg", dot && dot > name ? (int)(dot - name) : (int)strlen(name),
             name);
}

static int terminal_width(void)
{
    struct winsize w;
    return !ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) && w.ws_col >= 60 ? w.ws_col : 100;
}

/* What tells the curves of several logs apart. */
static void name_of(const char *file, int several, char *name, size_t size)
{
    const char *slash = strrchr(file, '/');
    snprintf(name, size, "%s", several ? slash ? slash + 1 : file : "");
}

static int read_csv(charts *all, char *text, const char *path, const chart_filter *f, char *error,
                    size_t size)
{
    csv_table t = {0};
    const int bad = csv_read(&t, text, path, error, size);
    const int known = bad ? -1 : charts_read_csv(all, &t, f);
    csv_free(&t);
    free(text);
    return known;
}

/* How many values of the file are understood; -1 with the error. */
static int read_file(charts *all, const char *path, const char *name, const chart_filter *f,
                     char *error, size_t size)
{
    size_t length;
    char *text = file_text(path, &length);
    if (!text) {
        snprintf(error, size, "%s: %s", path, strerror(errno));
        return -1;
    }
    if (csv_is(text) && f->where.count) {
        snprintf(error, size, "%s: --where is for records of JSON, this is CSV", path);
        free(text);
        return -1;
    }
    if (csv_is(text))
        return read_csv(all, text, path, f, error, size);
    json_value *values = json_read_text(text, length, path, 1, error, size);
    const int known = values ? charts_read(all, values, name, f) : -1;
    json_free(values);
    free(text);
    return known;
}

static int read_files(const cli_usage *u, charts *all, char **files, int n, const chart_filter *f)
{
    for (int i = 0; i < n; i++) {
        char error[512], name[CHART_NAME];
        name_of(files[i], n > 1, name, sizeof name);
        const int known = read_file(all, files[i], name, f, error, sizeof error);
        if (known <= 0) {
            cli_error(u, known ? "%s" : "%s: neither results of tigon bench nor a trainer's log",
                      known ? error : files[i]);
            return 1;
        }
    }
    if (!all->count || all->failed) {
        cli_error(u, all->failed ? "out of memory" : "nothing is left to draw");
        return 1;
    }
    return 0;
}

int command_plot(int argc, char **argv)
{
    chart_filter filter = {0};
    const char *output = NULL;
    int text = 0, as_json = 0;
    const cli_option options[] = {
        {"--output", CLI_TEXT, &output, "FILE.svg", "where to draw (the file's name with .svg)"},
        {"--operator", CLI_TEXT, &filter.op, "NAME", "only operators that start with it"},
        {"--mode", CLI_TEXT, &filter.mode, "MODE", "only forward, backward or full"},
        {"--metric", CLI_TEXT, &filter.metric, "METRIC",
         "only speed, memory, fraction or loss; ratio: others' times over Tigon's"},
        {"--where", CLI_LIST, &filter.where, "FIELD=VALUE",
         "only records of JSON with this, such as size=large; may be repeated"},
        {"--text", CLI_FLAG, &text, NULL, "bars on the terminal"},
        {"--json", CLI_FLAG, &as_json, NULL, "the points of the charts"},
        {0}};
    const cli_usage usage = {
        .command = "tigon plot",
        .operands = "FILE...",
        .summary =
            "Draws speed, memory and fraction of the limit from what tigon bench prints with\n"
            "--json or --sweep or writes with --csv, ratios from what bench/peers/run.sh writes,\n"
            "or the loss from a trainer's log, as SVG.",
        .notes = "FILE - is standard input. Several logs are drawn into one chart.",
        .options = options,
        .max_operands = 64};
    const int n = cli_parse(&usage, argc, argv);
    if (n < 0)
        return cli_exit(n);
    if (!n)
        return cli_error(&usage, "which FILE? see tigon plot --help");
    static const char *const metrics[] = {"speed", "memory", "fraction", "ratio", "loss"};
    int known = !filter.metric;
    for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++)
        known |= filter.metric && !strcmp(filter.metric, metrics[i]);
    if (!known)
        return cli_error(&usage, "no metric \"%s\": speed, memory, fraction, ratio or loss",
                         filter.metric);
    for (int i = 0; i < filter.where.count; i++)
        if (!strchr(filter.where.items[i], '='))
            return cli_error(&usage, "--where: found \"%s\", expected FIELD=VALUE",
                             filter.where.items[i]);
    charts all = {0};
    int status = read_files(&usage, &all, argv + 1, n, &filter);
    char path[512];
    default_output(argv[1], path, sizeof path);
    if (status == 0 && as_json) {
        status = print_json(&all);
    } else if (status == 0 && text) {
        charts_print(&all, stdout, terminal_width());
    } else if (status == 0) {
        status = charts_draw(&all, output ? output : path) ? 1 : 0;
        if (!status)
            printf("%s\n", output ? output : path);
    }
    charts_free(&all);
    return status;
}
