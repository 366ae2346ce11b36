/* tools/tigon/list/matrix.c - operators by devices, each cell checked now: see matrix.h. */
#include "matrix.h"

#include <stdlib.h>
#include <string.h>
#include <tigon/backend.h>
#include <time.h>

#include "check/check.h"
#include "formats/json.h"
#include "share/impl_device.h"
#include "share/marked.h"
#include "share/text.h"
#include "share/types.h"

int matrix_column_of(matrix *m, const char *name)
{
    for (int i = 0; i < m->ncolumns; i++)
        if (!strcmp(m->column[i].name, name))
            return i;
    if (m->ncolumns == MATRIX_COLUMNS)
        return -1;
    snprintf(m->column[m->ncolumns].name, sizeof m->column->name, "%s", name);
    return m->ncolumns++;
}

const char *matrix_direction(const char *op, int *base)
{
    const char *last = strrchr(op, '_');
    const int has = last && (!strcmp(last, "_forward") || !strcmp(last, "_backward"));
    *base = has ? (int)(last - op) : (int)strlen(op);
    return has ? last + 1 : "-";
}

/* ---- the cells ---- */

/* Of an implementation in a type. What is counted in f64 are the finite differences of ref: a
 * failure there is one in every type. */
static int passed(const totals *sum, int impl, int type)
{
    const tally *t = totals_line(sum, impl, type);
    return t ? t->passed : 0;
}

static int failed(const totals *sum, int impl, int type)
{
    const tally *t = totals_line(sum, impl, type), *gradients = totals_line(sum, impl, TG_F64);
    return (t ? t->failed : 0) + (gradients ? gradients->failed : 0);
}

static int was_checked(const totals *sum, int impl)
{
    int any = totals_line(sum, impl, TG_F64) != NULL;
    for (int k = 0; k < DATA_TYPES; k++)
        any |= totals_line(sum, impl, data_types[k]) != NULL;
    return any;
}

static const char *column_name(const tg_ctx *ctx, int impl)
{
    const char *device = tg_ctx_device(ctx);
    return strcmp(device, "cpu") ? device : tg_impl_at(impl)->backend;
}

/* "v4"; without a variant what the backend is called, or that it calls other operators. */
static const char *label(int impl)
{
    const tg_impl_info *info = tg_impl_at(impl);
    return info->takes & TG_TAKES_ANY_DEVICE ? "composed"
           : *info->variant                  ? info->variant
                                             : info->backend;
}

/* "f32 bf16 f16", "f32 FAILED bf16"; "-" if it takes no case */
static const char *types_of(const totals *sum, int impl, char *text, size_t size)
{
    text[0] = '\0';
    for (int k = 0; k < DATA_TYPES; k++) {
        const int type = data_types[k], wrong = failed(sum, impl, type);
        if (wrong || passed(sum, impl, type))
            text_add(text, size, "%s%s%s", *text ? " " : "", wrong ? "FAILED " : "",
                     tg_type_name(type));
    }
    return *text ? text : "-";
}

/* Implementations of one backend that are right in the same types share them. */
static void write_cells(matrix *m, const tg_ctx *ctx, matrix_line *l, const totals *sum)
{
    char text[64], last[64] = "";
    int column = -1;
    for (int impl = 0; impl < tg_impl_count(); impl++) {
        if (!was_checked(sum, impl) || !tg_impl_supported(ctx, impl))
            continue;
        const int now = matrix_column_of(m, column_name(ctx, impl));
        const char *of = types_of(sum, impl, text, sizeof text);
        if (now < 0)
            continue;
        char *cell = l->cell[now], *end = strrchr(cell, ':');
        if (now != column || !end || strcmp(of, last))
            end = cell + strlen(cell);
        const char *between = !*cell ? "" : *end ? " " : "; ";
        snprintf(end, MATRIX_CELL - (size_t)(end - cell), "%s%s: %s", between, label(impl), of);
        column = now;
        snprintf(last, sizeof last, "%s", of);
    }
}

/* ---- where it was run ---- */

/* "level v4bf16, 2026-11-29", "NVIDIA H200, 2026-11-29", "model of a 910B4, 2026-11-29" */
static void describe(const tg_ctx *ctx, char *text, size_t size)
{
    const char *device = tg_ctx_device(ctx), *soc = getenv("TIGON_SOC");
    const time_t now = time(NULL);
    char date[32], on[96] = "";
    strftime(date, sizeof date, "%Y-%m-%d", gmtime(&now));
    if (!strcmp(device, "cpu"))
        snprintf(on, sizeof on, "level %s, ", tg_cpu_level());
    else if (!strcmp(device, "npu-model"))
        snprintf(on, sizeof on, "model of a %s, ", soc && *soc ? soc : "910B4");
    else if (*device_card(device))
        snprintf(on, sizeof on, "%s, ", device_card(device));
    snprintf(text, size, "%s%s", on, date);
}

/* ---- the table ---- */

static void json_cell(json *j, const totals *sum, int impl, int type)
{
    char name[PB_NAME];
    int base;
    const tg_impl_info *info = tg_impl_at(impl);
    const char *op = tg_op_at(info->op)->name, *direction = matrix_direction(op, &base);
    const int right = passed(sum, impl, type), wrong = failed(sum, impl, type);
    snprintf(name, sizeof name, "%.*s", base, op);
    json_object(j, NULL);
    json_text(j, "operator", name);
    json_text(j, "direction", strcmp(direction, "-") ? direction : NULL);
    json_text(j, "backend", info->backend);
    json_text(j, "implementation", info->full_name);
    json_text(j, "dtype", tg_type_name(type));
    json_text(j, "state", wrong ? "failed" : right ? "verified" : "not supported");
    json_int(j, "passed", right);
    json_int(j, "failed", wrong);
    json_close(j);
}

static void json_cells(json *j, const totals *sum)
{
    for (int impl = 0; impl < tg_impl_count(); impl++)
        for (int k = 0; k < DATA_TYPES && was_checked(sum, impl); k++)
            json_cell(j, sum, impl, data_types[k]);
}

static void print_text(const matrix *m)
{
    int base;
    for (int i = 0; i < m->nlines; i++) {
        const char *name = tg_op_at(m->line[i].op)->name;
        const char *direction = matrix_direction(name, &base);
        for (int c = 0; c < m->ncolumns; c++) {
            if (!*m->line[i].cell[c])
                continue;
            printf("%-30.*s %-10s %-10s %s\n", base, name, direction, m->column[c].name,
                   m->line[i].cell[c]);
            base = 0; /* the name stands once */
            direction = "";
        }
    }
    for (int c = 0; c < m->ncolumns; c++)
        printf("%s: %s\n", m->column[c].name, m->column[c].where);
}

static int fill(matrix *m, tg_ctx *ctx, const int *ops, int nops, json *j)
{
    char error[PB_ERROR];
    const catalogue *cat = catalogue_get(error);
    m->line = calloc((size_t)nops + 1, sizeof *m->line);
    if (!cat || !m->line)
        return fprintf(stderr, "tigon list: %s\n", cat ? "out of memory" : error), -1;
    if (strcmp(tg_ctx_device(ctx), "cpu")) /* what operators call does not go to the CPU either */
        tg_ctx_set_strict(ctx, 1);
    for (int i = 0; i < nops; i++) {
        totals sum = {0};
        fprintf(stderr, "checking %s (%d of %d)\n", tg_op_at(ops[i])->name, i + 1, nops);
        check_quick(ctx, cat, ops[i], &sum);
        m->line[m->nlines].op = ops[i];
        write_cells(m, ctx, &m->line[m->nlines++], &sum);
        if (j)
            json_cells(j, &sum);
        m->failed += sum.failed;
        totals_free(&sum);
    }
    for (int c = 0; c < m->ncolumns; c++)
        describe(ctx, m->column[c].where, sizeof m->column[c].where);
    return 0;
}

static const char marker[] = "tigon list: matrix";

static int update(matrix *m, const char *file)
{
    char *page = marked_text("tigon list", file, marker);
    const int bad = !page || matrix_add_others(m, page) ||
                    marked_write("tigon list", file, marker, matrix_markdown, m);
    free(page);
    return bad ? -1 : 0;
}

int matrix_run(tg_ctx *ctx, const int *ops, int nops, const matrix_format *format)
{
    matrix m = {0};
    json j = json_begin(stdout, 2);
    if (format->update && marked_check("tigon list", format->update, marker))
        return 1;
    if (format->json) {
        json_object(&j, NULL);
        json_text(&j, "version", tg_version());
        json_text(&j, "level", tg_cpu_level());
        json_text(&j, "device", tg_ctx_device(ctx));
        json_array(&j, "cells");
    }
    int bad = fill(&m, ctx, ops, nops, format->json ? &j : NULL);
    if (format->json) {
        json_close(&j);
        json_close(&j);
        bad |= json_end(&j);
    } else if (!bad && format->update) {
        bad = update(&m, format->update);
    } else if (!bad && format->markdown) {
        matrix_markdown(stdout, &m);
    } else if (!bad) {
        print_text(&m);
    }
    free(m.line);
    return bad || m.failed;
}
