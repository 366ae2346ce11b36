/* tools/tigon/report/port.c - points 1 to 4: files, calls of the API, optimisations, tiling; read off sources and plans. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

static const char *op_name(const report *r, int i)
{
    return tg_op_at(r->op[i])->name;
}

/* ---- 1 and 2: files and calls ---- */

/* A kernel's symbol without its type. */
static void without_type(const char *symbol, char *name, size_t size)
{
    snprintf(name, size, "%s", symbol);
    char *last = strrchr(name, '_');
    if (last && tg_type_by_name(last + 1))
        *last = '\0';
}

/* The kernels that declare their buffers, as softmax_forward.wide does, may be those of other shapes. */
static void follow_declared(sources *s, const char *op)
{
    const size_t n = strlen(op);
    for (int i = 0; i < tg_ub_kernel_count(); i++) {
        char name[128];
        snprintf(name, sizeof name, "%s", tg_ub_kernel_at(i)->name);
        if (strncmp(name, op, n) || name[n] != '.')
            continue;
        name[n] = '_';
        sources_follow(s, name);
    }
}

/* What the operator's calls launched, and the host function that did. */
static void follow_operator(const report *r, sources *s, int i)
{
    char name[128];
    snprintf(name, sizeof name, "ascend_%s", op_name(r, i));
    sources_follow(s, name);
    follow_declared(s, op_name(r, i));
    for (int k = 0; k < r->nruns; k++)
        for (int l = 0; r->run[k].op->id == r->op[i] && l < r->run[k].nlaunches; l++) {
            without_type(r->run[k].launch[l].kernel, name, sizeof name);
            sources_follow(s, name);
        }
}

static void list_files(report *r, const sources *s)
{
    static const char *const columns[] = {"file", "lines", "of which used", "what it holds", NULL};
    doc_table(r->d, "list", columns);
    int lines, used;
    const char *path;
    for (int i = 0; (path = sources_file(s, i, &lines, &used)); i++) {
        char head[200];
        sources_head(s, i, head, sizeof head);
        doc_cell(r->d, "%s", path);
        doc_cell(r->d, "%d", lines);
        doc_cell(r->d, "%d", used);
        doc_cell(r->d, "%s", head);
    }
}

static int list_calls(report *r, sources *s)
{
    static const char *const columns[] = {"operator", "call",        "uses",
                                          "purpose",  "where, step", NULL};
    doc_table(r->d, "calls", columns);
    for (int i = 0; i < r->nops; i++) {
        source_call *calls;
        sources_forget(s);
        follow_operator(r, s, i);
        const int n = sources_calls(s, &calls);
        for (int k = 0; k < n; k++) {
            doc_cell(r->d, "%s", op_name(r, i));
            doc_cell(r->d, "%s", calls[k].name);
            doc_cell(r->d, "%d", calls[k].uses);
            doc_cell(r->d, "%s", calls[k].purpose);
            doc_cell(r->d, "%s", calls[k].steps);
        }
        free(calls);
        if (n < 0)
            return -1;
    }
    doc_note(
        r->d,
        "Uses are places in the source, shared helpers counted where they are used; kernels of the "
        "three types share them.");
    return 0;
}

int report_files_and_calls(report *r)
{
    char error[600];
    sources *s = sources_read(error, sizeof error);
    if (!s)
        return fprintf(stderr, "tigon report: %s\n", error), -1;
    for (int i = 0; i < r->nops; i++)
        follow_operator(r, s, i);
    doc_section(r->d, "files", "Files");
    list_files(r, s);
    doc_section(r->d, "api", "API map");
    report_symbols(r);
    const int status = list_calls(r, s);
    sources_free(s);
    if (status)
        fprintf(stderr, "tigon report: out of memory\n");
    return status;
}

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
}
