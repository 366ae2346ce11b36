/* outputs.c - a file has one use. */
#include "outputs.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "checkpoint.h"
#include "run.h"

/* A file that is there, or will be. */
typedef struct target {
    const char *option;
    /* the only one that leads to it; "" for devices and pipes, which several options may use */
    char path[2 * PATH_MAX];
} target;

/* Appends the parts of a path to one without links and dots. */
static void append(char *whole, const char *rest)
{
    for (size_t n; *rest; rest += n) {
        n = strcspn(rest, "/");
        n += n == 0;
        if (!strncmp(rest, "..", 2) && n == 2)
            *strrchr(*whole ? whole : strcpy(whole, "/"), '/') = 0;
        else if (*rest != '/' && !(*rest == '.' && n == 1))
            sprintf(whole + strlen(whole), "/%.*s", (int)n, rest);
    }
}

/* What is there of a path has its links followed; the rest is as it is written. */
static target target_of(const char *option, const char *path)
{
    target t = {.option = option};
    struct stat info;
    char head[PATH_MAX];
    if (strlen(path) >= sizeof(head))
        die("%.40s...: the path is too long", path);
    if (!stat(path, &info) && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode))
        return t;
    size_t n = strlen(path);
    for (; n > 0; n--) { /* the longest beginning that is there */
        snprintf(head, sizeof(head), "%.*s", (int)n, path);
        if ((path[n] == 0 || path[n] == '/') && realpath(head, t.path))
            break;
    }
    if (n == 0 && !realpath(*path == '/' ? "/" : ".", t.path))
        return t;
    if (!strcmp(t.path, "/"))
        *t.path = 0;
    append(t.path, path + n);
    return t;
}

/* One path, or two names of one file. */
static int are_one(const target *a, const target *b)
{
    struct stat x, y;
    if (!*a->path || !*b->path)
        return 0;
    return !strcmp(a->path, b->path) || (!stat(a->path, &x) && !stat(b->path, &y) &&
                                         x.st_dev == y.st_dev && x.st_ino == y.st_ino);
}

/* The name of a file in a folder; NULL if it is elsewhere. */
static const char *name_in(const target *folder, const target *file)
{
    const char *slash = strrchr(file->path, '/');
    return slash && (size_t)(slash - file->path) == strlen(folder->path) &&
                   !strncmp(file->path, folder->path, strlen(folder->path))
               ? slash + 1
               : NULL;
}

static int is_loaded(const char *name)
{
    return !strcmp(name, "config.json") || strstr(name, ".safetensors") != NULL;
}

/* What --out and --load have in their folders. */
static void check_folders(const options *o, const target *t)
{
    const target out = target_of("out", o->out ? o->out : "/");
    const target load = target_of("load", o->load ? o->load : "/");
    if (o->out && are_one(&out, t))
        die("--%s: is the folder of --out, %s", t->option, out.path);
    const char *kept = o->out ? name_in(&out, t) : NULL, *read = o->load ? name_in(&load, t) : NULL;
    if (kept && checkpoint_has(kept))
        die("--%s %s: --out writes its checkpoint there", t->option, t->path);
    if (read && is_loaded(read))
        die("--%s %s: --load reads it", t->option, t->path);
}

static void check_inputs(const options *o, const char *option, const char *const *paths, int count,
                         const target *written, int n)
{
    const target out = target_of("out", o->out ? o->out : "/");
    for (int i = 0; i < count && paths[i]; i++) {
        const target read = target_of(option, paths[i]);
        const char *name = o->out ? name_in(&out, &read) : NULL;
        if (name && checkpoint_has(name))
            die("--%s %s: --out writes its checkpoint there", option, paths[i]);
        for (int k = 0; k < n; k++)
            if (are_one(&read, &written[k]))
                die("--%s would write %s, which --%s reads", written[k].option, paths[i], option);
    }
}

/* The log, the curves, and the name under which these are written before they are renamed. */
static int written_files(const options *o, target *written)
{
    int n = 0;
    if (o->log)
        written[n++] = target_of("log", o->log);
    if (o->plot) {
        written[n++] = target_of("plot", o->plot);
        written[n] = written[n - 1];
        if (*written[n].path)
            strcat(written[n++].path, ".tmp");
    }
    return n;
}

void outputs_check(const options *o)
{
    target written[3];
    const int n = written_files(o, written);
    for (int i = 0; i < n; i++) {
        check_folders(o, &written[i]);
        for (int k = 0; k < i; k++)
            if (are_one(&written[i], &written[k]))
                die("--%s and --%s are one file: %s", written[k].option, written[i].option,
                    written[i].path);
    }
    if (o->out && o->load) {
        const target out = target_of("out", o->out), load = target_of("load", o->load);
        if (are_one(&out, &load))
            die("--out and --load are one folder: %s", out.path);
    }
    check_inputs(o, "data", o->data.path, o->data.count, written, n);
    check_inputs(o, "val", o->val.path, o->val.count, written, n);
    check_inputs(o, "tokens", &o->tokens, 1, written, n);
    check_inputs(o, "val-tokens", &o->val_tokens, 1, written, n);
}
