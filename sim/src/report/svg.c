/* report/svg.c - pipeline.svg: what the pipes of the first cores did in the last launch. */
#include "formats/svg.h"
#include "parts.h"

enum { CORES = 4, LEFT = 110, WIDTH = 1080, TOP = 64, ROW = 18, GAP = 14 };

static const struct {
    const char *name, *colour;
} looks[ASCSIM_PIPES] = {
#define SIM_PIPE(pipe, fault, table, trace, drawing, colour, ...) {drawing, colour},
#include "model/pipes.inc"
#undef SIM_PIPE
};
/* As data goes through them. */
static const int order[ASCSIM_PIPES] = {ASCSIM_MTE2, ASCSIM_MTE1, ASCSIM_M, ASCSIM_V,
                                        ASCSIM_MTE3, ASCSIM_FIX,  ASCSIM_S};

typedef struct drawing {
    FILE *file;
    double from, scale; /* us, pixels a us */
    int core[CORES], cores;
} drawing;

static int rows_of(int core)
{
    int rows = 0;
    for (int pipe = 0; pipe < ASCSIM_PIPES; pipe++) {
        rows += sim_core_has(core, pipe);
    }
    return rows;
}

/* Where the rows of the core at `place` begin; place `cores`: where they all end. */
static int top_of(const drawing *to, int place)
{
    int y = TOP;
    for (int i = 0; i < place; i++) {
        y += rows_of(to->core[i]) * ROW + GAP;
    }
    return y;
}

static int row_y(const drawing *to, int place, int pipe)
{
    int y = top_of(to, place);
    for (int row = 0; order[row] != pipe; row++) {
        y += sim_core_has(to->core[place], order[row]) ? ROW : 0;
    }
    return y;
}

static void put_rect(const drawing *to, int place, int pipe, int active, double start, double end)
{
    const double x = LEFT + (start - to->from) * to->scale, width = (end - start) * to->scale;
    svg_rect(to->file, x, row_y(to, place, pipe) + (active ? 1 : 6), width > 0.4 ? width : 0.4,
             active ? ROW - 3 : ROW - 13, "fill='%s'%s", active ? looks[pipe].colour : "#bbbbbb",
             active && width > 3 ? " stroke='white' stroke-width='0.6'" : "");
}

/* The bars of a row; those that the eye would not tell apart become one. */
static void put_row(const drawing *to, const sim_profile *profile, int place, int pipe, int active)
{
    const int core = to->core[place];
    double start = 0, end = -1;
    for (int64_t i = 0; i < profile->bar_count; i++) {
        const sim_bar *bar = &profile->bars[i];
        const int is_active = bar->kind == SIM_COPY || bar->kind == SIM_COMPUTE;
        if (bar->launch != profile->launch_count - 1 || bar->core != core || bar->pipe != pipe ||
            is_active != active || bar->kind == SIM_SET) {
            continue;
        }
        const int apart = (bar->start - end) * to->scale > 0.3 || (end - start) * to->scale > 3;
        if (end >= start && apart) {
            put_rect(to, place, pipe, active, start, end);
        }
        if (end < start || apart) {
            start = bar->start;
        }
        end = bar->end > end ? bar->end : end;
    }
    if (end >= start) {
        put_rect(to, place, pipe, active, start, end);
    }
}

static void put_axis(const drawing *to, double us, int bottom)
{
    const double step = svg_step(us > 0 ? us : 1, 10);
    for (int i = 0; i * step <= us * 1.0001; i++) {
        const double x = LEFT + i * step * to->scale;
        svg_line(to->file, x, TOP - 6, x, bottom, "stroke='#e4e4e4'");
        svg_text(to->file, x, bottom + 14, "text-anchor='middle'", "%.4g", i * step);
    }
    svg_text(to->file, LEFT - 8, bottom + 14, "text-anchor='end'", "us");
}

static void put_labels(const drawing *to)
{
    for (int place = 0; place < to->cores; place++) {
        const int core = to->core[place], cube = core >= SIM_CUBE_CORE;
        for (int pipe = 0; pipe < ASCSIM_PIPES; pipe++) {
            if (sim_core_has(core, pipe)) {
                svg_text(to->file, LEFT - 8, row_y(to, place, pipe) + 13, "text-anchor='end'", "%s",
                         looks[pipe].name);
            }
        }
        svg_text(to->file, 8, top_of(to, place) + 13, "font-weight='bold'", "%s %d",
                 cube ? "cube" : "core", cube ? core - SIM_CUBE_CORE : core);
    }
}

int sim_write_pipeline(const ascsim *device, const char *folder)
{
    static const char name[] = "pipeline.svg";
    const sim_profile *profile = device->profile;
    const sim_launch *launch = &profile->launches[profile->launch_count - 1];
    const double us = launch->time.task_us - launch->time.start_us;
    FILE *file = sim_report_file(folder, name);
    if (!file) {
        return -1;
    }
    drawing to = {.file = file,
                  .from = profile->clock_us - launch->time.task_us + profile->launch_us,
                  .scale = us > 0 ? WIDTH / us : 1};
    for (; to.cores < CORES && to.cores < launch->units; to.cores++) {
        to.core[to.cores] = launch->stats[to.cores].core;
    }
    const int bottom = top_of(&to, to.cores);
    svg_begin(file, LEFT + WIDTH + 30, bottom + 30, 11);
    svg_text(file, 8, 22, "font-size='15'", "%s on Ascend%s, model: %.4g us", launch->name,
             device->soc, launch->time.task_us);
    svg_text(file, 8, 42, "fill='#666666'",
             "coloured: an instruction is active; grey: the pipe waits for a flag, a barrier or a "
             "place in a queue");
    put_axis(&to, us, bottom);
    put_labels(&to);
    for (int place = 0; place < to.cores; place++) {
        for (int pipe = 0; pipe < ASCSIM_PIPES; pipe++) {
            if (sim_core_has(to.core[place], pipe)) {
                put_row(&to, profile, place, pipe, 0);
                put_row(&to, profile, place, pipe, 1);
            }
        }
    }
    svg_end(file);
    return sim_report_close(file, name);
}
