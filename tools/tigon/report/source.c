/* tools/tigon/report/source.c - functions and macros of the kernels' sources, and who calls whom. */
#include "source.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scan.h"

/* ---- definitions ---- */

static void define(sources *s, int file, const char *name, size_t n, const char *begin,
                   const char *end)
{
    if (s->n == s->room) {
        const int room = s->room ? 2 * s->room : 128;
        definition *list = realloc(s->list, (size_t)room * sizeof *list);
        if (!list)
            return;
        s->list = list;
        s->room = room;
    }
    definition *d = &s->list[s->n++];
    *d = (definition){.file = file, .begin = begin, .end = end};
    snprintf(d->name, sizeof d->name, "%.*s", (int)n, name);
}

/* The function that a header names: f(...), or x of ASC_NAME(x)(...). Steps of a pipeline are none: they are their kernel's text. */
static size_t name_in(const char *header, const char *end, const char **name)
{
    const char *open = memchr(header, '(', (size_t)(end - header));
    if (!open)
        return 0;
    const char *from = open;
    while (from > header && scan_is_word(from[-1]))
        from--;
    if (open - from == 8 && !strncmp(from, "ASC_STEP", 8))
        return 0;
    if (open - from == 8 && !strncmp(from, "ASC_NAME", 8)) {
        from = open + 1;
        for (open = from; scan_is_word(*open);)
            open++;
    }
    *name = from;
    return (size_t)(open - from);
}

/* A macro's text: to the end of the last line that continues. */
static const char *end_of_directive(const char *at)
{
    while (*at && *at != '\n')
        at += *at == '\\' && at[1] ? 2 : 1;
    return at;
}

static size_t word_at(const char *name)
{
    size_t n = 0;
    while (scan_is_word(name[n]))
        n++;
    return n;
}

/* #define ASC_FLAT ASC_NAME(x): a kernel x, which is what is defined for asc_flat.asc.h from here to where that is included. */
static void flat_kernel(sources *s, int file, const char *begin, const char *end)
{
    const char *name = strstr(begin, "ASC_NAME("), *to = strstr(end, "#include");
    if (!name || name > end)
        return;
    name += strlen("ASC_NAME(");
    define(s, file, name, word_at(name), begin, to ? to : end);
}

/* #define ASC_PIPELINE(step) ASC_NAME(x##step): a kernel x, from its first step to where asc_pipeline.asc.h is included. */
static void pipeline_kernel(sources *s, int file, const char *begin, const char *end)
{
    const char *name = strstr(begin, "ASC_NAME("), *to = strstr(end, "#include");
    char step[SOURCE_NAME + sizeof "ASC_STEP(_"];
    if (!name || name > end || !to)
        return;
    name += strlen("ASC_NAME(");
    snprintf(step, sizeof step, "ASC_STEP(%.*s_", (int)word_at(name), name);
    const char *from = strstr(s->file[file].code, step);
    if (from && from < to)
        define(s, file, name, word_at(name), from, to);
}

static int begins(const char *name, const char *prefix)
{
    return !strncmp(name, prefix, strlen(prefix));
}

static const char *macro(sources *s, int file, const char *at)
{
    const char *end = end_of_directive(at), *name = at + strspn(at, "# \t");
    if (strncmp(name, "define", 6))
        return end;
    name += 6;
    name += strspn(name, " \t");
    const size_t n = word_at(name);
    if (begins(name, "ASC_FLAT "))
        flat_kernel(s, file, name, end);
    else if (begins(name, "ASC_PIPELINE("))
        pipeline_kernel(s, file, name, end);
    else if (!begins(name, "ASC_FLAT") && !begins(name, "ASC_PIPELINE"))
        define(s, file, name, n, name + n, end);
    return end;
}

/* Functions are what braces enclose behind a parenthesis. */
static void find_definitions(sources *s, int file)
{
    const char *header = s->file[file].code, *begin = NULL, *name = NULL;
    size_t n = 0;
    int depth = 0;
    for (const char *at = header; *at; at++) {
        if (*at == '#' && (at == s->file[file].code || at[-1] == '\n')) {
            at = depth ? end_of_directive(at)
                       : macro(s, file, at); /* within a function it is of its text */
            if (!depth)
                header = at;
            if (!*at)
                break;
        } else if (*at == '{' && depth++ == 0) {
            begin = at;
            n = name_in(header, at, &name);
        } else if (*at == '}' && depth && --depth == 0) {
            if (n)
                define(s, file, name, n, begin, at);
            header = at + 1;
        } else if (*at == ';' && !depth) {
            header = at + 1;
        }
    }
}

/* ---- reading ---- */

sources *sources_read(char *error, size_t size)
{
    sources *s = calloc(1, sizeof *s);
    snprintf(error, size, "out of memory");
    if (!s || sources_load(s, error, size))
        return sources_free(s), NULL;
    for (int i = 0; i < s->nfiles; i++) {
        s->file[i].code = scan_code(s->file[i].text);
        if (!s->file[i].code)
            return sources_free(s), NULL;
        find_definitions(s, i);
    }
    return s;
}

void sources_free(sources *s)
{
    if (!s)
        return;
    for (int i = 0; i < s->nfiles; i++) {
        free(s->file[i].code);
        free(s->file[i].text);
    }
    free(s->file);
    free(s->list);
    free(s);
}

/* ---- following ---- */

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Files of one family begin alike, rms_norm.asc.c and rms_norm_forward.asc.h; shared ones are everybody's. Host files see
 * themselves. */
static int sees(const sources *s, int from, int to)
{
    const char *a = base_of(s->file[from].path), *b = base_of(s->file[to].path);
    const size_t n = strcspn(a, "."), m = strcspn(b, ".");
    if (from == to)
        return 1;
    if (!strstr(s->file[from].path, "/kernels/") || !strstr(s->file[to].path, "/kernels/"))
        return 0;
    return scan_is_shared(s->file[to].path) || !strncmp(a, b, n < m ? n : m);
}

static void follow(sources *s, int number)
{
    definition *d = &s->list[number];
    if (d->followed)
        return;
    d->followed = 1;
    s->file[d->file].followed = 1;
    scan_word w = {.next = d->begin};
    while (scan_next(&w, d->end))
        for (int i = 0; i < s->n; i++)
            if (!s->list[i].followed && !strncmp(s->list[i].name, w.at, w.n) &&
                !s->list[i].name[w.n] && sees(s, s->list[number].file, s->list[i].file))
                follow(s, i);
}

int sources_follow(sources *s, const char *function)
{
    int found = -1;
    for (int i = 0; i < s->n; i++)
        if (!strcmp(s->list[i].name, function)) {
            follow(s, i);
            found = 0;
        }
    return found;
}

void sources_forget(sources *s)
{
    for (int i = 0; i < s->n; i++)
        s->list[i].followed = 0;
    for (int i = 0; i < s->nfiles; i++)
        s->file[i].followed = 0;
}

/* ---- answers ---- */

static const scan_file *followed_file(const sources *s, int i)
{
    for (int f = 0; f < s->nfiles; f++)
        if (s->file[f].followed && i-- == 0)
            return &s->file[f];
    return NULL;
}

const char *sources_file(const sources *s, int i, int *lines, int *used)
{
    const scan_file *f = followed_file(s, i);
    if (!f)
        return NULL;
    *lines = scan_line(f->text, f->text + strlen(f->text)) - 1;
    *used = 0;
    for (int k = 0; k < s->n; k++)
        if (s->list[k].followed && &s->file[s->list[k].file] == f)
            *used += scan_line(s->list[k].begin, s->list[k].end);
    return f->path;
}

/* From " - " to the first sentence's end. */
void sources_head(const sources *s, int i, char *text, size_t size)
{
    const scan_file *f = followed_file(s, i);
    const char *at = f ? strstr(f->text, " - ") : NULL;
    size_t n = 0;
    for (at = at ? at + 3 : ""; *at && strncmp(at, "*/", 2) && n + 1 < size; at++) {
        const int line_goes_on = !strncmp(at, "\n * ", 4);
        if (*at == '\n' && !line_goes_on)
            break;
        text[n++] = line_goes_on ? ' ' : *at;
        at += line_goes_on ? 3 : 0;
        if (text[n - 1] == ' ' && n > 1 && text[n - 2] == '.')
            break;
    }
    while (n && isspace((unsigned char)text[n - 1]))
        n--;
    text[n] = '\0';
}
