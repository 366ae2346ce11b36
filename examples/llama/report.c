/* report.c - progress bar, log, history, table of costs. */
#include "report.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- history ---- */

history *history_new(int64_t steps)
{
    const size_t n = (size_t)(steps + 1) * 5, bytes = sizeof(history) + n * sizeof(float);
    history *h = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (h == MAP_FAILED)
        die("out of memory");
    h->steps = steps;
    h->held_out = NAN;
    for (size_t i = 0; i < n; i++)
        h->data[i] = NAN;
    return h;
}

float *history_loss(history *h)
{
    return h->data;
}

float *history_norm(history *h)
{
    return h->data + (h->steps + 1);
}

float *history_held_out(history *h)
{
    return h->data + 2 * (h->steps + 1);
}

float *history_seconds(history *h)
{
    return h->data + 3 * (h->steps + 1);
}

float *history_gemms(history *h)
{
    return h->data + 4 * (h->steps + 1);
}

static int ascending(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

double median(const float *values, int64_t n)
{
    float *sorted = malloc((size_t)(n + 1) * sizeof(*sorted));
    int64_t count = 0;
    if (!sorted)
        die("out of memory");
    for (int64_t i = 0; i < n; i++)
        if (!isnan(values[i]))
            sorted[count++] = values[i];
    qsort(sorted, (size_t)count, sizeof(*sorted), ascending);
    const double middle = count ? sorted[count / 2] : NAN;
    free(sorted);
    return middle;
}

/* ---- progress and log ---- */

void report_open(report *r, const options *o, const char *label, int64_t first_step)
{
    *r = (report){.o = o, .label = label, .first_step = first_step};
    r->begin = now();
    r->terminal = isatty(STDERR_FILENO);
    if (o->log) {
        r->log = fopen(o->log, first_step > 0 ? "a" : "w");
        if (!r->log)
            die("--log %s: %s", o->log, strerror(errno));
    }
}

static void bar(char *text, int width, double part)
{
    char *p = text;
    for (int i = 0; i < width; i++)
        p += sprintf(p, "%s", i < (int)(part * width + 0.5) ? "█" : "░");
}

static void show(report *r, const event *e)
{
    const options *o = r->o;
    const int64_t done = e->step - r->first_step;
    const double left = (now() - r->begin) / (double)done * (double)(o->steps - e->step);
    char line[128];
    bar(line, 20, (double)e->step / (double)o->steps);
    fprintf(stderr, "%s%s %s %lld/%lld  loss %.4f  norm %.3f  %.0f tokens/s  %lld:%02lld left%s",
            r->terminal ? "\r" : "", r->label, line, (long long)e->step, (long long)o->steps,
            e->loss, e->norm, e->tokens / e->seconds, (long long)left / 60, (long long)left % 60,
            r->terminal ? "\033[K" : "\n");
}

/* Its disk is full, or whoever read it is gone: no reason to lose the course. */
static void lose_log(report *r)
{
    fprintf(stderr, "%sllama: --log %s: %s; the run goes on without it\n", r->terminal ? "\n" : "",
            r->o->log, strerror(errno));
    r->log_lost = 1;
}

static void flush_log(report *r)
{
    if (!fflush(r->log))
        return;
    lose_log(r);
    fclose(r->log);
    r->log = NULL;
}

void report_step(report *r, const event *e)
{
    if (r->log) {
        fprintf(r->log,
                "{\"step\":%lld,\"loss\":%.9g,\"grad_norm\":%.9g,\"lr\":%.9g,\"seconds\":%.6f,"
                "\"tokens_per_s\":%.1f}\n",
                (long long)e->step, e->loss, e->norm, e->lr, e->seconds, e->tokens / e->seconds);
        flush_log(r);
    }
    const double gap = r->terminal ? 0.1 : 10;
    const int edge = e->step == r->o->steps || e->step == r->first_step + 1;
    if (r->o->quiet || (!edge && now() - r->shown < gap))
        return;
    r->shown = now();
    show(r, e);
}

void report_say(report *r, const char *format, ...)
{
    va_list list;
    if (r->o->quiet)
        return;
    va_start(list, format);
    if (r->terminal)
        fputs("\r\033[K", stderr);
    fprintf(stderr, "%s ", r->label);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
}

void report_held_out(report *r, int64_t step, double loss)
{
    if (r->log) {
        fprintf(r->log, "{\"step\":%lld,\"held_out\":%.9g}\n", (long long)step, loss);
        flush_log(r);
    }
    report_say(r, "held-out loss after %lld steps: %.4f nats a %s", (long long)step, loss,
               r->o->tokens ? "token" : "byte");
}

void report_close(report *r, const history *h)
{
    if (!r->log)
        return;
    fprintf(r->log, "{\"steps\":%lld,\"median_tokens_per_s\":%.1f,\"peak_bytes\":%lld",
            (long long)h->done, h->done ? h->tokens_per_s : 0, (long long)h->peak_bytes);
    if (h->device_bytes)
        fprintf(r->log, ",\"device_peak_bytes\":%lld,\"returned_bytes\":%lld",
                (long long)h->device_bytes, (long long)h->returned_bytes);
    fputs("}\n", r->log);
    if (fclose(r->log))
        lose_log(r);
    r->log = NULL;
}

/* ---- costs ---- */

static int longest_first(const void *a, const void *b)
{
    const double x = ((const cost *)a)->seconds, y = ((const cost *)b)->seconds;
    return (x < y) - (x > y);
}

/* Each step by its own products, which ran right after it: the machine's speed changes
 * from step to step. */
static double median_ratio(history *h, int64_t first, int64_t n)
{
    float *ratios = malloc((size_t)(n + 1) * sizeof(*ratios));
    if (!ratios)
        die("out of memory");
    for (int64_t i = 0; i < n; i++)
        ratios[i] = history_seconds(h)[first + i] / history_gemms(h)[first + i];
    const double middle = median(ratios, n);
    free(ratios);
    return middle;
}

void report_costs(const model *m, history *h, int64_t first, int64_t last)
{
    const run *r = m->r;
    cost sorted[MAX_COSTS];
    const double steps = (double)(last - first);
    double seconds = 0, sum = 0;
    for (int64_t i = first + 1; i <= last; i++)
        seconds += (double)history_seconds(h)[i];
    memcpy(sorted, r->costs, sizeof(sorted));
    qsort(sorted, (size_t)r->ncosts, sizeof(cost), longest_first);
    printf("%-36s %-46s %6s %10s %7s\n", "operator", "implementation", "calls", "ms/step", "share");
    for (int i = 0; i < r->ncosts; i++) {
        const cost *c = &sorted[i];
        sum += c->seconds;
        printf("%-36s %-46s %6.0f %10.3f %6.1f%%\n", c->op, c->impl, (double)c->calls / steps,
               c->seconds / steps * 1e3, 100 * c->seconds / seconds);
    }
    if (!is_apart(r)) /* else a step is the sum of its calls */
        printf("%-36s %-46s %6s %10.3f %6.1f%%\n", "(between the calls)", "", "",
               (seconds - sum) / steps * 1e3, 100 * (seconds - sum) / seconds);
    const double step = median(history_seconds(h) + first + 1, last - first);
    const double gemms = median(history_gemms(h) + first + 1, last - first);
    printf("median step %.1f ms; its GEMMs alone %.1f ms (%.0f GFLOP/s); step / GEMMs = %.3f\n",
           step * 1e3, gemms * 1e3, model_flops(m) * (double)m->rounds / gemms * 1e-9,
           median_ratio(h, first + 1, last - first));
}
