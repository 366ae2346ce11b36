/* report/trace.c - trace.json for Chrome (chrome://tracing) and Perfetto: a process a core, a thread a pipe, an arrow from
 * every flag that was set to the wait that waited for it. */
#include <string.h>

#include "parts.h"

static const char *const rows[ASCSIM_PIPES] = {"SCALAR", "VECTOR", "MTE2", "MTE3"};

static void put_text(FILE *file, const char *text)
{
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') {
            fputc('\\', file);
        }
        if ((unsigned char)*text >= ' ') {
            fputc(*text, file);
        }
    }
}

static void put_names(FILE *file, const sim_profile *profile, int64_t count)
{
    int cores = 0;
    for (int64_t i = 0; i < count; i++) {
        cores = profile->bars[i].core >= cores ? profile->bars[i].core + 1 : cores;
    }
    for (int core = 0; core < cores; core++) {
        fprintf(file,
                "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"args\":{\"name\":\"core%d."
                "veccore%d (model)\"}},\n",
                core, core / 2, core % 2);
        for (int pipe = 0; pipe < ASCSIM_PIPES; pipe++) {
            fprintf(file,
                    "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%d,\"args\":{"
                    "\"name\":\"%s\"}},\n",
                    core, pipe, rows[pipe]);
        }
    }
}

static void put_bar(FILE *file, const sim_bar *bar)
{
    fprintf(file, "{\"ph\":\"X\",\"name\":\"");
    put_text(file, bar->site->name);
    fprintf(
        file,
        "\",\"cat\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":%.4f,\"dur\":%.4f,\"args\":{\"detail\":\"",
        bar->kind == SIM_COPY || bar->kind == SIM_COMPUTE ? "instruction" : "wait", bar->core,
        bar->pipe, bar->start, bar->end - bar->start);
    put_text(file, bar->site->file);
    fprintf(file, ":%d\",\"block\":%d,\"launch\":%d,\"process_bytes\":%lld}},\n", bar->site->line,
            bar->block, bar->launch, (long long)bar->bytes);
}

static void put_arrow(FILE *file, const sim_bar *bar, const char *end, int pipe, double time,
                      long id)
{
    fprintf(file,
            "{\"ph\":\"%s\",\"name\":\"%sTo%s\",\"cat\":\"flag\",\"bp\":\"e\",\"id\":%ld,\"pid\":%"
            "d,\"tid\":%d,\"ts\":%.4f},\n",
            end, rows[bar->source % ASCSIM_PIPES], rows[bar->target % ASCSIM_PIPES], id, bar->core,
            pipe, time);
}

enum { CORES = 64, TRACED = 1 << 18 };

/* Sets come before their waits in the list of bars; a wait that found its flag set drew no bar. */
static void put_bars(FILE *file, const sim_profile *profile, int64_t count)
{
    static _Thread_local const sim_bar *set[CORES][ASCSIM_PIPES][ASCSIM_PIPES][SIM_EVENTS];
    memset(set, 0, sizeof set);
    static const double inside = 2e-4; /* us: an arrow ends in the bar that ends there */
    long id = 0;
    for (int64_t i = 0; i < count; i++) {
        const sim_bar *bar = &profile->bars[i];
        const sim_bar **flag = &set[bar->core % CORES][bar->source % ASCSIM_PIPES]
                                   [bar->target % ASCSIM_PIPES][bar->event];
        if (bar->kind == SIM_SET) {
            *flag = bar;
            continue;
        }
        put_bar(file, bar);
        if (bar->kind == SIM_WAIT && *flag) {
            put_arrow(file, bar, "s", bar->source, (*flag)->start - inside, ++id);
            put_arrow(file, bar, "f", bar->pipe, bar->end - inside, id);
            *flag = NULL;
        }
    }
}

int64_t ascsim_write_trace(ascsim *device, const char *folder)
{
    static const char name[] = "trace.json";
    const sim_profile *profile = device->profile;
    if (!profile || !device->options.trace) {
        return sim_error("there is no trace: options.trace was not set, or no launch was timed");
    }
    FILE *file = sim_report_file(folder, name);
    if (!file) {
        return -1;
    }
    const int64_t count = profile->bar_count < TRACED ? profile->bar_count : TRACED;
    const int64_t left_out = profile->bars_left_out + profile->bar_count - count;
    fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n", file);
    put_names(file, profile, count);
    put_bars(file, profile, count);
    fprintf(file,
            "{\"ph\":\"M\",\"name\":\"process_labels\",\"pid\":0,\"args\":{\"labels\":\"Ascend%s, "
            "modelled\"}}],\n"
            "\"otherData\":{\"soc\":\"%s\",\"measured_on\":\"model\",\"instructions_left_out\":%"
            "lld}}\n",
            device->soc, device->soc, (long long)left_out);
    return sim_report_close(file, name) != 0 ? -1 : left_out;
}
