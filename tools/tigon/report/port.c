/* tools/tigon/report/port.c - points 3 and 4: optimisations and tiling, from the plans that
 * launches followed. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "report.h"

/* ---- 3: optimisations ---- */

static int copies_of(const tg_ub_buffer *b)
{
    return b->copies > 1 ? b->copies : 1;
}

/* Names of the buffers there that a bank or a number of copies was asked for. */
static int names_of(const report_launch *l, int bank, int copies, char *text, size_t size)
{
    int n = 0;
    text[0] = '\0';
    for (int i = 0; i < l->info.plan->nbuffers; i++) {
        const tg_ub_buffer *b = &l->info.plan->buffers[i];
        const size_t used = strlen(text);
        if (l->layout.place[i].used && (!bank || (int)b->bank == bank) && copies_of(b) >= copies)
            snprintf(text + used, size - used, "%s%s", n++ ? ", " : "", b->name);
    }
    return n;
}

static void row(report *r, const report_run *run, const report_launch *l, const char *what,
                int applied)
{
    doc_cell(r->d, "%s", l->info.plan->name);
    doc_cell(r->d, "%s", run->group);
    doc_cell(r->d, "%s", what);
    doc_cell(r->d, applied ? "yes" : "no");
}

static void double_buffering(report *r, const report_run *run, const report_launch *l)
{
    char names[200];
    const tg_npu_launch *t = &l->info;
    const int n = names_of(l, 0, 2, names, sizeof names);
    row(r, run, l, "double buffering", n > 0);
    doc_cell(r->d, "%s%sV, MTE2, MTE3 busy %.1f + %.1f + %.1f us of %.1f us", names, n ? "; " : "",
             t->vector_us, t->read_us, t->write_us, t->us);
}

static void grid(report *r, const report_run *run, const report_launch *l)
{
    const tg_ub_layout *p = &l->layout;
    row(r, run, l, "grid-stride loop", p->tasks > p->blocks);
    doc_cell(r->d, "%" PRId64 " tasks on %" PRId64 " blocks, %d cores: at most %" PRId64 " each",
             p->tasks, p->blocks, l->problem.cores,
             p->blocks ? (p->tasks + p->blocks - 1) / p->blocks : 0);
}

static void banks(report *r, const report_run *run, const report_launch *l)
{
    char low[200], high[200];
    const int n = names_of(l, TG_UB_BANK_LOW, 1, low, sizeof low);
    const int m = names_of(l, TG_UB_BANK_HIGH, 1, high, sizeof high);
    row(r, run, l, "banks apart", n && m);
    doc_cell(r->d, n && m ? "%s at 0, %s at 256 modulo 512" : "no buffers are declared apart", low,
             high);
}

static void rows_in_ub(report *r, const report_run *run, const report_launch *l)
{
    const tg_ub_layout *p = &l->layout;
    row(r, run, l, "whole rows in UB", p->column_tiles <= 1);
    if (p->column_tiles <= 1)
        doc_cell(r->d, "rows of %" PRId64 ", %" PRId64 " a tile", l->problem.columns, p->tile_rows);
    else
        doc_cell(r->d, "%s of %" PRId64 " in %" PRId64 " pieces of %" PRId64 "%s",
                 l->info.plan->flat ? "independent elements: a row" : "rows", l->problem.columns,
                 p->column_tiles, p->tile_columns,
                 l->info.plan->flat ? ", which go to any block"
                                    : ", one after the other in one block");
}

/* What the buffers would take one behind the other. */
static void sharing(report *r, const report_run *run, const report_launch *l)
{
    int64_t apart = 0;
    for (int i = 0; i < l->info.plan->nbuffers; i++)
        apart += l->layout.place[i].bytes * copies_of(&l->info.plan->buffers[i]);
    row(r, run, l, "buffers share memory", apart > l->layout.ub_bytes);
    doc_cell(r->d, "%" PRId64 " bytes of buffers in %" PRId64 " of UB", apart, l->layout.ub_bytes);
}

/* The plans of the smallest and the largest group. */
void report_optimisations(report *r)
{
    static const char *const columns[] = {"kernel",  "shapes", "optimisation",
                                          "applied", "how",    NULL};
    doc_section(r->d, "optimisations", "NPU optimisations");
    doc_table(r->d, "list", columns);
    for (int k = 0; k < r->nruns; k++)
        for (int i = 0; strcmp(r->run[k].group, "medium") && i < r->run[k].nlaunches; i++) {
            const report_launch *l = &r->run[k].launch[i];
            if (!l->info.plan)
                continue;
            double_buffering(r, &r->run[k], l);
            grid(r, &r->run[k], l);
            banks(r, &r->run[k], l);
            rows_in_ub(r, &r->run[k], l);
            sharing(r, &r->run[k], l);
        }
}

/* ---- 4: tiling ---- */

static void tiling_row(report *r, const report_run *run, const report_launch *l)
{
    const tg_ub_layout *p = &l->layout;
    doc_cell(r->d, "%s", l->kernel);
    doc_cell(r->d, "%s", run->group);
    doc_cell(r->d, "%s", run->shape);
    doc_cell(r->d, "%" PRId64, l->info.blocks);
    if (!l->info.plan) {
        for (int i = 0; i < 5; i++)
            doc_cell(r->d, "-");
        return;
    }
    doc_cell(r->d, "%" PRId64 " x %" PRId64, l->problem.rows, l->problem.columns);
    doc_cell(r->d, "%" PRId64 " x %" PRId64, p->tile_rows, p->tile_columns);
    doc_cell(r->d, "%" PRId64, p->tasks);
    doc_cell(r->d, "%" PRId64 " of %" PRId64, p->ub_bytes, p->available);
    doc_cell(r->d, "%s", p->limiting < 0 ? "-" : l->info.plan->buffers[p->limiting].name);
}

static void tiling_reasons(report *r, const report_run *run, const report_launch *l)
{
    char all[1500] = "", one[200];
    for (int i = 0; i < l->layout.nwhys; i++) {
        const size_t used = strlen(all);
        tg_ub_reason(l->info.plan, &l->problem, &l->layout, i, one, sizeof one);
        snprintf(all + used, sizeof all - used, "%s%s", i ? "; " : "", one);
    }
    doc_note(r->d, "%s, %s: %s", l->kernel, run->group, all);
}

/* "column", of what the size of a buffer is a multiple. */
static const char *const sizes_of[] = {[TG_UB_ELEMENT] = "element",
                                       [TG_UB_ROW] = "row",
                                       [TG_UB_COLUMN] = "column",
                                       [TG_UB_FIXED] = "kernel"};

/* The kernel's list of buffers, where the planner put them, and what the model saw of them. */
static void buffer_rows(report *r, const report_launch *l)
{
    for (int i = 0; i < l->info.plan->nbuffers; i++) {
        const tg_ub_buffer *b = &l->info.plan->buffers[i];
        const tg_ub_place *p = &l->layout.place[i];
        if (!p->used)
            continue;
        doc_cell(r->d, "%s", l->kernel);
        doc_cell(r->d, "%s", b->name);
        doc_cell(r->d, "%d", b->bytes ? b->bytes : l->problem.dtype_bytes);
        doc_cell(r->d, "%s", sizes_of[b->per]);
        doc_cell(r->d, "%" PRId64, p->offset);
        doc_cell(r->d, "%" PRId64, p->bytes);
        doc_cell(r->d, "%d", copies_of(b));
        doc_cell(r->d, "%" PRId64, l->used[i]);
    }
}

static void list_buffers(report *r)
{
    static const char *const columns[] = {"kernel",    "buffer", "bytes",      "per", "at in UB",
                                          "of a copy", "copies", "bytes used", NULL};
    int plans = 0;
    for (int k = 0; k < r->nruns; k++)
        for (int i = 0; report_is_largest(r, k) && i < r->run[k].nlaunches; i++)
            if (r->run[k].launch[i].info.plan) {
                if (!plans++)
                    doc_table(r->d, "buffers", columns);
                buffer_rows(r, &r->run[k].launch[i]);
            }
    if (plans)
        doc_note(r->d,
                 "Buffers as the kernels' lists declare them, planned for the largest shapes; "
                 "bytes used: what the model saw some block read or write, in blocks of 32, of all "
                 "copies. One that shares its memory with another counts what that uses.");
}

void report_tiling(report *r)
{
    static const char *const columns[] = {"kernel", "shapes", "sizes",    "blocks",   "as planned",
                                          "tile",   "tasks",  "UB bytes", "limiting", NULL};
    doc_section(r->d, "tiling", "Tiling and launch");
    doc_table(r->d, "launches", columns);
    for (int k = 0; k < r->nruns; k++)
        for (int i = 0; i < r->run[k].nlaunches; i++)
            tiling_row(r, &r->run[k], &r->run[k].launch[i]);
    for (int k = 0; k < r->nruns; k++)
        for (int i = 0; i < r->run[k].nlaunches; i++)
            if (r->run[k].launch[i].info.plan)
                tiling_reasons(r, &r->run[k], &r->run[k].launch[i]);
    list_buffers(r);
}
