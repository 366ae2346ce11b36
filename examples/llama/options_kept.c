/* options_kept.c - the options that a checkpoint keeps: as texts, and back. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options_table.h"
#include "run.h"

void options_check_resumed(const options *o, const options *kept)
{
    for (int i = 0; i < options_count; i++) {
        const option *t = &options_table[i];
        const char *now = (const char *)o + t->offset, *was = (const char *)kept + t->offset;
        char text[64], old[64];
        if (t->kept != MODEL)
            continue;
        if (t->kind == FLAG ? *(const int64_t *)now != *(const int64_t *)was
                            : strcmp(option_text(o, t, text, sizeof(text)),
                                     option_text(kept, t, old, sizeof(old))) != 0)
            die("--%s%s%s: the checkpoint's model is another one%s%s", t->name,
                t->kind == FLAG ? "" : " ", t->kind == FLAG ? "" : text,
                t->kind == FLAG ? "" : ", of ", t->kind == FLAG ? "" : old);
    }
}

/* The absolute path, so that a run may be resumed from another folder. */
static char *whole_path(const char *path)
{
    char *whole = realpath(path, NULL);
    if (!whole)
        die("%s: %s", path, strerror(errno));
    if (strchr(whole, '\n'))
        die("%s: a checkpoint cannot keep a file name with a line break", whole);
    return whole;
}

/* A line each; NULL for no files. */
static char *paths_text(const char *const *path, int count)
{
    char *text = NULL;
    size_t size;
    FILE *f = count ? open_memstream(&text, &size) : NULL;
    for (int i = 0; i < count; i++) {
        char *whole = whole_path(path[i]);
        fprintf(f, "%s%s", i ? "\n" : "", whole);
        free(whole);
    }
    if (f && fclose(f))
        die("out of memory");
    return text;
}

static void set_paths(files *list, const char *text)
{
    char *copy = strdup(text), *rest = copy; /* the list points into it */
    if (!copy)
        die("out of memory");
    list->count = 0;
    for (char *path; (path = strsep(&rest, "\n"));)
        if (*path && list->count < MAX_FILES)
            list->path[list->count++] = path;
}

void options_each_saved(const options *o,
                        void (*each)(void *user, const char *name, const char *value), void *user)
{
    for (int i = 0; i < options_count; i++) {
        const option *t = &options_table[i];
        const void *field = (const char *)o + t->offset;
        char text[40], *paths = NULL;
        const char *value = text;
        if (!t->kept)
            continue;
        if (t->kind == FILES)
            value = paths = paths_text(((const files *)field)->path, ((const files *)field)->count);
        else if (t->kind == TEXT_FILE)
            value = paths = paths_text(field, *(const char *const *)field != NULL);
        else if (t->kind == TEXT)
            value = *(const char *const *)field;
        else if (t->kind == REAL)
            snprintf(text, sizeof(text), "%.17g", *(const double *)field);
        else
            snprintf(text, sizeof(text), "%lld", (long long)*(const int64_t *)field);
        if (value)
            each(user, t->name, value);
        free(paths);
    }
}

int options_set_saved(options *o, const char *name, const char *value)
{
    const option *t = option_find(name);
    if (!t || !t->kept)
        return 0;
    if (t->kind == FILES)
        set_paths((files *)((char *)o + t->offset), value);
    else
        option_set(o, t, value);
    return 1;
}
