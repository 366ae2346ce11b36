/* report/trace.c - trace.json for Chrome (chrome://tracing) and Perfetto: a process a core, a
 * thread a pipe, an arrow from every flag that was set to the wait that waited for it. */
#include <math.h>
#include <string.h>

#include "formats/json.h"
#include "parts.h"

static const char *const rows[ASCSIM_PIPES] = {
#define SIM_PIPE(pipe, fault, table, trace, ...) trace,
#include "model/pipes.inc"
#undef SIM_PIPE
};

/* An event's first members; the caller adds its own and closes it. */
static void open_event(json *j, const char *phase, const char *name, int pid)
{
    json_object(j, NULL);
    json_text(j, "ph", phase);
    json_text(j, "name", name);
    json_int(j, "pid", pid);
}

/* What a process or a thread is called. */
static void put_name(json *j, const char *kind, int core, int pipe, const char *name)
{
    open_event(j, "M", kind, core);
    if (pipe >= 0) {
        json_int(j, "tid", pipe);
    }
    json_object(j, "args");
    json_text(j, "name", name);
    json_close(j);
    json_close(j);
}

static void put_names(json *j, const sim_profile *profile, int64_t count)
{
    char seen[SIM_CORES] = {0};
    for (int64_t i = 0; i < count; i++) {
        seen[profile->bars[i].core % SIM_CORES] = 1;
    }
    for (int core = 0; core < SIM_CORES; core++) {
        char name[64];
        if (!seen[core]) {
            continue;
        }
        if (core < SIM_CUBE_CORE) {
            snprintf(name, sizeof name, "core%d.veccore%d (model)", core / 2, core % 2);
        } else {
            snprintf(name, sizeof name, "core%d.cubecore0 (model)", core - SIM_CUBE_CORE);
        }
        put_name(j, "process_name", core, -1, name);
        for (int pipe = 0; pipe < ASCSIM_PIPES; pipe++) {
            if (sim_core_has(core, pipe)) {
                put_name(j, "thread_name", core, pipe, rows[pipe]);
            }
        }
    }
}

/* To a tenth of a nanosecond. */
static double rounded(double us)
{
    return round(us * 1e4) / 1e4;
}

static void put_bar(json *j, const sim_bar *bar)
{
    char place[4096];
    snprintf(place, sizeof place, "%s:%d", bar->site->file, bar->site->line);
    open_event(j, "X", bar->site->name, bar->core);
    json_text(j, "cat", bar->kind == SIM_COPY || bar->kind == SIM_COMPUTE ? "instruction" : "wait");
    json_int(j, "tid", bar->pipe);
    json_real(j, "ts", rounded(bar->start));
    json_real(j, "dur", rounded(bar->end - bar->start));
    json_object(j, "args");
    json_text(j, "detail", place);
    json_int(j, "block", bar->block);
    json_int(j, "launch", bar->launch);
    json_int(j, "process_bytes", bar->bytes);
    json_close(j);
    json_close(j);
}

static void put_arrow(json *j, const sim_bar *bar, const char *end, int pipe, double time, long id)
{
    char name[32];
    snprintf(name, sizeof name, "%sTo%s", rows[bar->source % ASCSIM_PIPES],
             rows[bar->target % ASCSIM_PIPES]);
    open_event(j, end, name, bar->core);
    json_text(j, "cat", "flag");
    json_text(j, "bp", "e");
    json_int(j, "id", id);
    json_int(j, "tid", pipe);
    json_real(j, "ts", rounded(time));
    json_close(j);
}

enum { TRACED = 1 << 18 };

/* Sets come before their waits in the list of bars; a wait that found its flag set drew no bar. */
static void put_bars(json *j, const sim_profile *profile, int64_t count)
{
    static _Thread_local const sim_bar *set[SIM_CORES][ASCSIM_PIPES][ASCSIM_PIPES][SIM_EVENTS];
    memset(set, 0, sizeof set);
    static const double inside = 2e-4; /* us: an arrow ends in the bar that ends there */
    long id = 0;
    for (int64_t i = 0; i < count; i++) {
        const sim_bar *bar = &profile->bars[i];
        const sim_bar **flag = &set[bar->core % SIM_CORES][bar->source % ASCSIM_PIPES]
                                   [bar->target % ASCSIM_PIPES][bar->event];
        if (bar->kind == SIM_SET) {
            *flag = bar;
            continue;
        }
        put_bar(j, bar);
        if (bar->kind == SIM_WAIT && *flag) {
            put_arrow(j, bar, "s", bar->source, (*flag)->start - inside, ++id);
            put_arrow(j, bar, "f", bar->pipe, bar->end - inside, id);
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
    json j = json_begin(file, -2);
    char chip[64];
    json_object(&j, NULL);
    json_text(&j, "displayTimeUnit", "ns");
    json_array(&j, "traceEvents");
    put_names(&j, profile, count);
    put_bars(&j, profile, count);
    snprintf(chip, sizeof chip, "Ascend%s, modelled", device->soc);
    open_event(&j, "M", "process_labels", 0);
    json_object(&j, "args");
    json_text(&j, "labels", chip);
    json_close(&j);
    json_close(&j);
    json_close(&j);
    json_object(&j, "otherData");
    json_text(&j, "soc", device->soc);
    json_text(&j, "measured_on", "model");
    json_int(&j, "instructions_left_out", left_out);
    json_close(&j);
    json_close(&j);
    json_end(&j);
    return sim_report_close(file, name) != 0 ? -1 : left_out;
}
