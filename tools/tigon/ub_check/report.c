/* tools/tigon/ub_check/report.c - a plan in tables, or as JSON: tile, reasons,
 * places, ledger, chips. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <tigon/tigon.h>

#include "ub_check.h"

/* The plan, or that of the tile asked for, in a UB of that capacity. */
static tg_status plan(const ub_question *q, int cores, int64_t capacity_bits,
                      tg_ub_problem *problem, tg_ub_layout *layout)
{
    *problem = q->problem;
    problem->cores = cores;
    problem->ub_bytes = q->ours ? tg_ub_usable_bytes(capacity_bits) : capacity_bits / 8;
    return q->tile.rows ? tg_ub_plan_tile(q->kernel, problem, q->tile.rows, q->tile.columns, layout)
                        : tg_ub_plan(q->kernel, problem, layout);
}

static int fits(const tg_ub_layout *layout)
{
    return layout->ub_bytes <= layout->available;
}

static int copies_of(const tg_ub_buffer *b)
{
    return b->copies > 1 ? b->copies : 1;
}

/* The step's name, or its number alone. */
static const char *step_name(const tg_ub_kernel *kernel, int step)
{
    for (int s = 0; kernel->steps && kernel->steps[s]; s++)
        if (s == step)
            return kernel->steps[s];
    return "";
}

static const char *limiting_name(const tg_ub_kernel *kernel, const tg_ub_layout *layout)
{
    return layout->limiting < 0 ? "none" : kernel->buffers[layout->limiting].name;
}

/* ---- text ---- */

static void print_head(const ub_question *q, const tg_ub_layout *l)
{
    const char *const verdict = fits(l) ? "fits" : "ub overflow";
    printf("%s, %" PRId64 " x %" PRId64 " %s, on %s: %d vector cores, %" PRId64
           " bits of UB (%s)\n",
           q->kernel->name, q->problem.rows, q->problem.columns, q->dtype, q->chip.name,
           q->chip.cores, q->chip.capacity_bits, q->chip.source);
    printf("tile %" PRId64 " x %" PRId64 ", %" PRId64 " columns in memory: wants %" PRId64
           " bits, %" PRId64 " available: %s\n",
           l->tile_rows, l->tile_columns, l->pitch, 8 * l->ub_bytes, 8 * l->available, verdict);
    if (l->blocks)
        printf("tiles %" PRId64 " x %" PRId64 ", tasks %" PRId64 ", blocks to launch %" PRId64
               ", stride in tasks %" PRId64 "\n",
               l->row_tiles, l->column_tiles, l->tasks, l->blocks, l->blocks);
}

static void print_reasons(const ub_question *q, const tg_ub_problem *problem, const tg_ub_layout *l)
{
    char text[200];
    for (int i = 0; i < l->nwhys; i++) {
        tg_ub_reason(q->kernel, problem, l, i, text, sizeof text);
        printf("  - %s\n", text);
    }
}

static void print_buffers(const tg_ub_kernel *kernel, const tg_ub_layout *l)
{
    printf("\n  %-16s %8s %8s %6s %8s  %s\n", "buffer", "offset", "bytes", "copies", "row",
           "alive");
    for (int i = 0; i < kernel->nbuffers; i++) {
        const tg_ub_buffer *b = &kernel->buffers[i];
        const int last = b->to < l->nsteps ? b->to : l->nsteps - 1;
        if (l->place[i].used)
            printf("  %-16s %8" PRId64 " %8" PRId64 " %6d %8" PRId64 "  %d-%d%s%s\n", b->name,
                   l->place[i].offset, l->place[i].bytes, copies_of(b), l->place[i].row_bytes,
                   b->copies > 1 ? 0 : b->from, b->copies > 1 ? l->nsteps - 1 : last,
                   b->copies > 1 ? " (copies)" : "", i == l->limiting ? "  <- limiting" : "");
    }
}

static void print_ledger(const tg_ub_kernel *kernel, const tg_ub_layout *l)
{
    static const char bar[] = "########################################";
    const int64_t full =
        l->available > l->live[l->peak_step] ? l->available : l->live[l->peak_step];
    printf("\n  %-4s %10s  alive\n", "step", "bytes");
    for (int s = 0; s < l->nsteps; s++) {
        const int n = full ? (int)(l->live[s] * (int)strlen(bar) / full) : 0;
        const char *name = step_name(kernel, s);
        printf("  %-4d %10" PRId64 "  %.*s%s%s%s\n", s, l->live[s], n, bar, *name ? " " : "", name,
               s == l->peak_step ? " <- peak" : "");
    }
}

/* For a tile that does not fit: the one that the planner would take. */
static void print_advice(const ub_question *q)
{
    ub_question free_tile = *q;
    tg_ub_problem problem;
    tg_ub_layout l;
    free_tile.tile = (ub_size){0, 0};
    if (plan(&free_tile, q->chip.cores, q->chip.capacity_bits, &problem, &l))
        printf("  no tile fits: %s\n", tg_last_error());
    else
        printf("  a tile of %" PRId64 " x %" PRId64 " fits, with %" PRId64 " bits\n", l.tile_rows,
               l.tile_columns, 8 * l.ub_bytes);
}

static void print_chips(const ub_question *q)
{
    printf("\n  %-8s %5s %10s  %-16s %8s %10s\n", "chip", "cores", "available", "tile", "blocks",
           "wants bits");
    for (int i = 0; i < tg_npu_chip_count(); i++) {
        const tg_npu_chip *c = tg_npu_chip_at(i);
        tg_ub_problem problem;
        tg_ub_layout l;
        char tile[48];
        plan(q, c->vector_cores, 8 * c->ub_bytes, &problem, &l);
        snprintf(tile, sizeof tile, "%" PRId64 " x %" PRId64, l.tile_rows, l.tile_columns);
        printf("  %-8s %5d %10" PRId64 "  %-16s %8" PRId64 " %10" PRId64 "  %s\n", c->name,
               c->vector_cores, 8 * l.available, tile, l.blocks, 8 * l.ub_bytes,
               fits(&l) ? "fits" : "ub overflow");
    }
}

/* ---- JSON ---- */

static void json_layout(json *j, const tg_ub_layout *l)
{
    json_int(j, "tile_rows", l->tile_rows);
    json_int(j, "tile_columns", l->tile_columns);
    json_int(j, "pitch", l->pitch);
    json_int(j, "tasks", l->tasks);
    json_int(j, "blocks", l->blocks);
    json_int(j, "wanted_bits", 8 * l->ub_bytes);
    json_int(j, "available_bits", 8 * l->available);
    json_bool(j, "fits", fits(l));
}

static void json_buffers(json *j, const tg_ub_kernel *kernel, const tg_ub_layout *l)
{
    json_array(j, "buffers");
    for (int i = 0; i < kernel->nbuffers; i++) {
        const tg_ub_place *p = &l->place[i];
        if (!p->used)
            continue;
        json_object(j, NULL);
        json_text(j, "name", kernel->buffers[i].name);
        json_int(j, "offset", p->offset);
        json_int(j, "bytes", p->bytes);
        json_int(j, "copies", copies_of(&kernel->buffers[i]));
        json_int(j, "copy_stride", p->copy_stride);
        json_int(j, "row_bytes", p->row_bytes);
        json_close(j);
    }
    json_close(j);
    json_array(j, "live_bytes");
    for (int s = 0; s < l->nsteps; s++)
        json_int(j, NULL, l->live[s]);
    json_close(j);
    json_int(j, "peak_step", l->peak_step);
    json_text(j, "limiting", limiting_name(kernel, l));
}

static void json_report(json *j, const ub_question *q, const tg_ub_problem *problem,
                        const tg_ub_layout *l)
{
    char text[200];
    json_object(j, NULL);
    json_text(j, "kernel", q->kernel->name);
    json_int(j, "rows", problem->rows);
    json_int(j, "columns", problem->columns);
    json_text(j, "dtype", q->dtype);
    json_text(j, "chip", q->chip.name);
    json_int(j, "vector_cores", q->chip.cores);
    json_int(j, "capacity_bits", q->chip.capacity_bits);
    json_text(j, "capacity_source", q->chip.source);
    json_layout(j, l);
    json_array(j, "reasons");
    for (int i = 0; i < l->nwhys; i++) {
        tg_ub_reason(q->kernel, problem, l, i, text, sizeof text);
        json_text(j, NULL, text);
    }
    json_close(j);
    json_buffers(j, q->kernel, l);
    json_array(j, "chips");
    for (int i = 0; i < tg_npu_chip_count(); i++) {
        const tg_npu_chip *c = tg_npu_chip_at(i);
        tg_ub_problem there;
        tg_ub_layout layout;
        plan(q, c->vector_cores, 8 * c->ub_bytes, &there, &layout);
        json_object(j, NULL);
        json_text(j, "chip", c->name);
        json_layout(j, &layout);
        json_close(j);
    }
    json_close(j);
    json_close(j);
}

int ub_report(const cli_usage *usage, const ub_question *q, json *j)
{
    tg_ub_problem problem;
    tg_ub_layout layout;
    const tg_status status = plan(q, q->chip.cores, q->chip.capacity_bits, &problem, &layout);
    if (status && status != TG_ENOMEM)
        return cli_error(usage, "%s: %s", q->kernel->name, tg_last_error());
    if (j) {
        json_report(j, q, &problem, &layout);
        return !fits(&layout);
    }
    print_head(q, &layout);
    if (!fits(&layout))
        print_advice(q);
    print_reasons(q, &problem, &layout);
    print_buffers(q->kernel, &layout);
    print_ledger(q->kernel, &layout);
    print_chips(q);
    return !fits(&layout);
}
