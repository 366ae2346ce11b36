/* tools/tigon/report/calls.c - points 1 and 2: files, calls of the vector core's API, arguments;
 * from the record of what ran. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "report.h"

/* ---- 1: files ---- */

/* A file, and the lines of it whose calls ran. */
typedef struct used_file {
    char name[256];
    int ncalls;
} used_file;

enum { MOST_FILES = 128 };
typedef struct used_files {
    int n;
    used_file list[MOST_FILES];
} used_files;

static used_file *file_of(used_files *files, const char *name)
{
    for (int i = 0; i < files->n; i++)
        if (!strcmp(files->list[i].name, name))
            return &files->list[i];
    if (files->n == MOST_FILES)
        return NULL;
    used_file *new = &files->list[files->n++];
    *new = (used_file){0};
    snprintf(new->name, sizeof new->name, "%s", name);
    return new;
}

/* Files beside a kernel's that begin like it or like its host: the list of what it is given, and
 * the unit that is compiled. */
static void add_beside(used_files *files, const char *kernel, const char *stem)
{
    static const char *const ends[] = {".args.h", ".asc.c", ".cube.asc.c", ".mix.asc.c"};
    const char *slash = strrchr(kernel, '/');
    const char *base = strrchr(stem, '/') ? strrchr(stem, '/') + 1 : stem;
    char name[256];
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        snprintf(name, sizeof name, "%.*s/%.*s%s", slash ? (int)(slash - kernel) : 0, kernel,
                 (int)strcspn(base, "."), base, ends[i]);
        char *text = files_text(name);
        if (text)
            file_of(files, name);
        free(text);
    }
}

/* "kernels/..." after the hosts' files, which lie in no folder. */
static int by_name(const void *a, const void *b)
{
    const used_file *x = a, *y = b;
    const int rooms = !!strchr(x->name, '/') - !!strchr(y->name, '/');
    return rooms ? rooms : strcmp(x->name, y->name);
}

static int by_line(const void *a, const void *b)
{
    const tg_npu_call *x = *(const tg_npu_call *const *)a, *y = *(const tg_npu_call *const *)b;
    const int files = strcmp(x->file, y->file);
    return files ? files : x->line - y->line;
}

/* Counts each line once, whatever is called there and by whichever operator. */
static int find_kernels(const record *record, used_files *files)
{
    const tg_npu_call **calls = malloc(((size_t)record->n + 1) * sizeof *calls);
    for (int i = 0; calls && i < record->n; i++)
        calls[i] = &record->place[i].call;
    if (calls && record->n)
        qsort(calls, (size_t)record->n, sizeof *calls, by_line);
    for (int i = 0; calls && i < record->n; i++) {
        used_file *f = file_of(files, files_name(calls[i]->file));
        if (f && (!i || by_line(&calls[i - 1], &calls[i])))
            f->ncalls++;
    }
    free(calls);
    return calls ? files->n : -1;
}

static void find_files(const record *record, used_files *files)
{
    const int kernels = find_kernels(record, files);
    for (int i = 0; i < kernels; i++) {
        char kernel[sizeof files->list[i].name];
        snprintf(kernel, sizeof kernel, "%s", files->list[i].name);
        add_beside(files, kernel, kernel);
        for (int h = 0; h < record->nsources; h++)
            add_beside(files, kernel, record->source[h]);
    }
    for (int h = 0; h < record->nsources; h++)
        file_of(files, files_name(record->source[h]));
    qsort(files->list, (size_t)files->n, sizeof *files->list, by_name);
}

static int lines_of(const char *text)
{
    int lines = 0;
    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

void report_files(report *r)
{
    static const char *const columns[] = {"file", "lines", "lines with calls", "what it holds",
                                          NULL};
    used_files files = {0};
    find_files(&r->record, &files);
    doc_section(r->d, "files", "Files");
    doc_table(r->d, "list", columns);
    for (int i = 0; i < files.n; i++) {
        char head[200] = "its text is not installed";
        char *text = files_text(files.list[i].name);
        if (text)
            files_head(text, head, sizeof head);
        doc_cell(r->d, "backends/ascend/%s", files.list[i].name);
        doc_cell(r->d, "%d", text ? lines_of(text) : 0);
        doc_cell(r->d, "%d", files.list[i].ncalls);
        doc_cell(r->d, "%s", head);
        free(text);
    }
    doc_note(r->d, "Files of the host that launched; of kernels, those whose calls the model ran, "
                   "and beside them the lists and units that begin like these or like the host.");
}

/* ---- 2: calls ---- */

/* What a call is for, by the beginning of its name; the first that fits. */
static const char *purpose_of(const char *name)
{
    static const struct {
        const char *begins, *purpose;
    } table[] = {
        {"asc_copy_gm2", "copy in"},
        {"asc_copy_ub2gm", "copy out"},
        {"asc_copy_l0c2", "copy out"},
        {"asc_copy_l12", "load"},
        {"asc_copy", "copy within a core"},
        {"asc_mmad", "product"},
        {"asc_sync_notify", "flag, set"},
        {"asc_sync_wait", "flag, wait"},
        {"asc_sync_block_arrive", "signal to other cores"},
        {"asc_sync_block_wait", "signal of other cores"},
        {"asc_sync", "barrier"},
        {"asc_set_atomic", "atomic mode"},
        {"asc_set_vector_mask", "mask"},
        {"asc_set_mask", "mask"},
        {"asc_set_", "mode"},
        {"asc_get_ctrl", "mode"},
        {"asc_get_", "read back"},
        {"asc_init", "modes at the start"},
        {"asc_repeat_reduce", "reduction"},
        {"asc_datablock_reduce", "reduction"},
        {"asc_pair_reduce", "reduction"},
        {"asc_brcb", "broadcast"},
        {"asc_duplicate", "broadcast"},
        {"asc_gather", "gather"},
        {"asc_select", "selection"},
        {"asc_half2", "conversion"},
        {"asc_float2", "conversion"},
        {"asc_bfloat162", "conversion"},
        {"asc_int", "conversion"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strncmp(name, table[i].begins, strlen(table[i].begins)))
            return table[i].purpose;
    return "arithmetic";
}

/* "swiglu.asc.c:20, :24, asc_common.h:110". */
static void where(const record_place *first, int n, char *text, size_t size)
{
    text[0] = '\0';
    for (int i = 0; i < n; i++) {
        const tg_npu_call *c = &first[i].call;
        const int is_same = i && !strcmp(c->file, first[i - 1].call.file);
        const char *slash = strrchr(c->file, '/');
        const size_t used = strlen(text);
        snprintf(text + used, size - used, "%s%s:%d", i ? ", " : "",
                 is_same ? ""
                 : slash ? slash + 1
                         : c->file,
                 c->line);
    }
}

/* The first n places are of one call. */
static void call_row(report *r, const record_place *first, int n)
{
    char places[4096];
    tg_npu_call sum = first->call;
    for (int i = 1; i < n; i++) {
        sum.times += first[i].call.times;
        sum.busy_us += first[i].call.busy_us;
        sum.wait_us += first[i].call.wait_us;
    }
    where(first, n, places, sizeof places);
    doc_cell(r->d, "%s", tg_op_at(first->op)->name);
    doc_cell(r->d, "%s", sum.name);
    doc_cell(r->d, "%s", purpose_of(sum.name));
    doc_cell(r->d, "%s", sum.pipe);
    doc_cell(r->d, "%d", n);
    doc_cell(r->d, "%" PRId64, sum.times);
    doc_cell(r->d, "%.2f", sum.busy_us);
    doc_cell(r->d, "%.2f", sum.wait_us);
    doc_cell(r->d, "%s", places);
}

static int is_same_call(const record_place *a, const record_place *b)
{
    return a->op == b->op && !strcmp(a->call.name, b->call.name) &&
           !strcmp(a->call.pipe, b->call.pipe);
}

static void list_calls(report *r)
{
    static const char *const columns[] = {"operator", "call",    "purpose", "pipe",  "places",
                                          "times",    "busy us", "wait us", "where", NULL};
    const record *record = &r->record;
    doc_table(r->d, "calls", columns);
    for (int i = 0, n; i < record->n; i += n) {
        for (n = 1; i + n < record->n && is_same_call(&record->place[i], &record->place[i + n]);)
            n++;
        call_row(r, &record->place[i], n);
    }
    doc_note(r->d,
             "The model's record of what ran for points 5 and 6. Places: lines that some shape or "
             "type reached. Times: how often all blocks called it in the third call with the "
             "largest shapes; busy and wait: how long a block's pipe worked on it or stood at it "
             "there, on average. What reads only what the launch is, such as "
             "asc_get_block_idx, becomes no instruction and is not recorded.");
}

/* ---- 2: arguments ---- */

static void argument_rows(report *r, const report_launch *l)
{
    for (int i = 0; i < l->narguments; i++) {
        const tg_npu_argument *a = &l->argument[i];
        const int is_real = !strcmp(a->kind, "real");
        doc_cell(r->d, "%s", l->kernel);
        doc_cell(r->d, "%s", a->name);
        doc_cell(r->d, "%s", a->kind);
        if (is_real || !strcmp(a->kind, "integer"))
            doc_cell(r->d, is_real ? "%g" : "%.0f", a->value);
        else if (a->bytes)
            doc_cell(r->d, "%" PRId64 " bytes", a->bytes);
        else
            doc_cell(r->d, "absent");
    }
}

static void list_arguments(report *r)
{
    static const char *const columns[] = {"kernel", "argument", "kind", "given", NULL};
    doc_table(r->d, "arguments", columns);
    for (int k = 0; k < r->nruns; k++)
        for (int i = 0; report_is_largest(r, k) && i < r->run[k].nlaunches; i++)
            argument_rows(r, &r->run[k].launch[i]);
    doc_note(r->d, "What the largest shapes' launches gave, as the kernels' lists name it; the "
                   "grid and the places of buffers are the plan's, of point 4.");
}

void report_api(report *r)
{
    doc_section(r->d, "api", "API map");
    report_symbols(r);
    list_calls(r);
    list_arguments(r);
}
