/* tools/tigon/report/scan.c - words of C without its comments, and the calls of the API among them. */
#include "scan.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- text ---- */

int scan_is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

int scan_line(const char *from, const char *to)
{
    int line = 1;
    for (; from < to; from++)
        line += *from == '\n';
    return line;
}

static char *blank(char *at, const char *end)
{
    for (; at < end && *at; at++)
        if (*at != '\n')
            *at = ' ';
    return at;
}

char *scan_code(const char *text)
{
    char *code = strdup(text);
    for (char *at = code; at && *at;) {
        char *end = at + 1;
        if (!strncmp(at, "/*", 2)) {
            end = strstr(at + 2, "*/");
            end = end ? end + 2 : at + strlen(at);
        } else if (!strncmp(at, "//", 2)) {
            end = at + strcspn(at, "\n");
        } else if (*at == '"' || *at == '\'') {
            while (*end && *end != *at && *end != '\n')
                end += *end == '\\' && end[1] ? 2 : 1;
            end += *end != '\0';
        } else {
            at++;
            continue;
        }
        at = blank(at, end);
    }
    return code;
}

int scan_next(scan_word *w, const char *end)
{
    const char *at = w->next;
    while (at < end && !(scan_is_word(*at) && !isdigit((unsigned char)*at)))
        do
            at++; /* a number is no word, with all its letters */
        while (at < end && scan_is_word(at[-1]) && scan_is_word(*at));
    if (at >= end)
        return 0;
    w->at = at;
    while (at < end && scan_is_word(*at))
        at++;
    w->n = (size_t)(at - w->at);
    w->next = at;
    w->is_call = at < end && *at == '(';
    return 1;
}

/* ---- the API ---- */

/* What a call is for, by the beginning of its name; the first that fits. */
static const char *purpose_of(const char *name)
{
    static const struct {
        const char *begins, *purpose;
    } table[] = {
        {"asc_copy_gm2ub", "copy in (MTE2)"},
        {"asc_copy_ub2gm", "copy out (MTE3)"},
        {"asc_copy", "copy within UB (V)"},
        {"asc_sync_notify", "flag, set"},
        {"asc_sync_wait", "flag, wait"},
        {"asc_sync", "barrier"},
        {"asc_set_atomic", "atomic mode"},
        {"asc_set_vector_mask", "mask"},
        {"asc_set_mask", "mask"},
        {"asc_set_", "mode"},
        {"asc_get_block", "grid"},
        {"asc_get_phy_buf_addr", "address in UB"},
        {"asc_get_ctrl", "mode"},
        {"asc_get_", "read back by S"},
        {"asc_init", "modes at the start"},
        {"asc_repeat_reduce", "reduction (V)"},
        {"asc_datablock_reduce", "reduction (V)"},
        {"asc_pair_reduce", "reduction (V)"},
        {"asc_brcb", "broadcast (V)"},
        {"asc_duplicate", "broadcast (V)"},
        {"asc_gather", "gather (V)"},
        {"asc_select", "selection (V)"},
        {"asc_half2", "conversion (V)"},
        {"asc_float2", "conversion (V)"},
        {"asc_bfloat162", "conversion (V)"},
        {"asc_int", "conversion (V)"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strncmp(name, table[i].begins, strlen(table[i].begins)))
            return table[i].purpose;
    return "arithmetic (V)";
}

/* What the comment at the end of the line says; it belongs to its last statement. */
static void comment_of(const scan_file *f, const char *at, char *text, size_t size)
{
    const char *line = f->text + (at - f->code), *end = line + strcspn(line, "\n");
    const char *open = strstr(line, "/*");
    text[0] = '\0';
    if (!open || open >= end)
        return;
    const char *close = strstr(open, "*/");
    if (close && close < end)
        snprintf(text, size, " %.*s", (int)(close - open - 4 > 0 ? close - open - 4 : 0), open + 3);
}

/* Calls as they are found, in one operator. */
typedef struct finding {
    const sources *s;
    source_call *calls;
    int n, broken;
    const definition *in; /* the function of the kernel that is read */
    const char *at;       /* and the place in it */
} finding;

/* The entry of that name, a new one if there is none yet. */
static source_call *entry_of(finding *f, const scan_word *w)
{
    for (int i = 0; i < f->n; i++)
        if (!strncmp(f->calls[i].name, w->at, w->n) && !f->calls[i].name[w->n])
            return &f->calls[i];
    source_call *more = realloc(f->calls, (size_t)(f->n + 1) * sizeof *more);
    if (!more) {
        f->broken = 1;
        return NULL;
    }
    f->calls = more;
    more += f->n++;
    *more = (source_call){0};
    snprintf(more->name, SOURCE_NAME, "%.*s", (int)w->n, w->at);
    more->purpose = purpose_of(more->name);
    return more;
}

/* ", :24 exp(-|u|)"; with the names of function and file where they are others than before. */
static void add_use(finding *f, const scan_word *w)
{
    const scan_file *file = &f->s->file[f->in->file];
    source_call *c = entry_of(f, w);
    if (!c)
        return;
    const size_t used = strlen(c->steps);
    const int line = scan_line(file->code, f->at), is_same = c->last == f->in->name;
    char comment[80];
    c->uses++;
    if (is_same && c->last_line == line)
        return;
    comment_of(file, f->at, comment, sizeof comment);
    if (is_same)
        snprintf(c->steps + used, sizeof c->steps - used, ", :%d%s", line, comment);
    else
        snprintf(c->steps + used, sizeof c->steps - used, "%s%s %s:%d%s", used ? ", " : "",
                 f->in->name, strrchr(file->path, '/') + 1, line, comment);
    c->last = f->in->name;
    c->last_line = line;
}

int scan_is_shared(const char *path)
{
    return !strstr(path, ".asc.") || strstr(path, "/asc_");
}

static int is_shared(const sources *s, const definition *d)
{
    return scan_is_shared(s->file[d->file].path);
}

/* ASC_FOLD(asc_max, ...): the macro calls it. */
static int is_argument(const scan_word *w)
{
    return w->at[-1] == '(' && w->at[w->n] == ',';
}

/* The calls in a body. What shared headers define counts at the place where it is used. */
static void find_calls(finding *f, const definition *d, int depth)
{
    enum { DEEPEST = 8 };
    scan_word w = {.next = d->begin};
    while (depth < DEEPEST && scan_next(&w, d->end)) {
        int is_defined = 0;
        if (!depth)
            f->at = w.at;
        for (int i = 0; i < f->s->n; i++) {
            const definition *other = &f->s->list[i];
            if (strncmp(other->name, w.at, w.n) || other->name[w.n])
                continue;
            is_defined = 1;
            if (other->followed && is_shared(f->s, other))
                find_calls(f, other, depth + 1);
        }
        if (!is_defined && (w.is_call || is_argument(&w)) && w.n < SOURCE_NAME &&
            !strncmp(w.at, "asc_", 4))
            add_use(f, &w);
    }
}

static int by_purpose(const void *a, const void *b)
{
    const source_call *x = a, *y = b;
    const int purposes = strcmp(x->purpose, y->purpose);
    return purposes ? purposes : strcmp(x->name, y->name);
}

int sources_calls(const sources *s, source_call **calls)
{
    finding f = {.s = s};
    for (int i = 0; i < s->n; i++) {
        f.in = &s->list[i];
        if (f.in->followed && strstr(s->file[f.in->file].path, "/kernels/") && !is_shared(s, f.in))
            find_calls(&f, f.in, 0);
    }
    if (f.n)
        qsort(f.calls, (size_t)f.n, sizeof *f.calls, by_purpose);
    *calls = f.calls;
    return f.broken ? -1 : f.n;
}
