/* tools/tigon/report/files.c - the text of the NPU kernels and of their host side: from the installed share folder, or from the source
 * tree that this command was built from. */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "scan.h"
#include "share/file.h"

/* What the files are called in a report, wherever they are read. */
static const char in_tree[] = "backends/ascend";

static int is_source(const struct dirent *entry)
{
    const char *end = strrchr(entry->d_name, '.');
    return end && (!strcmp(end, ".c") || !strcmp(end, ".h"));
}

/* Reads one file; 0 if there is no room for it. */
static int read_source(sources *s, const char *root, const char *name)
{
    char path[PATH_MAX];
    if (s->nfiles == s->files_room) {
        const int room = 2 * s->files_room + 64;
        scan_file *more = realloc(s->file, (size_t)room * sizeof *more);
        if (!more)
            return 0;
        s->file = more;
        s->files_room = room;
    }
    scan_file *f = &s->file[s->nfiles];
    *f = (scan_file){0};
    if (snprintf(f->path, sizeof f->path, "%s/%s", in_tree, name) < 0)
        return 0;
    snprintf(path, sizeof path, "%s/%s", root, name);
    f->text = file_text(path, NULL);
    s->nfiles += f->text != NULL;
    return f->text != NULL;
}

/* All sources of root/folder. How many there are, or -1 if one of them cannot be read. */
static int read_folder(sources *s, const char *root, const char *folder)
{
    char path[PATH_MAX], name[512];
    struct dirent **list;
    int ok = 1;
    snprintf(path, sizeof path, "%s/%s", root, folder);
    const int n = scandir(path, &list, is_source, alphasort);
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "%s%s%s", folder, *folder ? "/" : "", list[i]->d_name);
        ok = ok && read_source(s, root, name);
        free(list[i]);
    }
    if (n >= 0)
        free(list);
    return ok ? n : -1;
}

static int is_room(const struct dirent *entry)
{
    return !strchr(entry->d_name, '.');
}

/* The same of the rooms of the kernels. */
static int read_kernels(sources *s, const char *root)
{
    char path[PATH_MAX], name[512];
    struct dirent **rooms;
    int all = 0;
    snprintf(path, sizeof path, "%s/kernels", root);
    const int n = scandir(path, &rooms, is_room, alphasort);
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "kernels/%s", rooms[i]->d_name);
        const int here = all < 0 ? -1 : read_folder(s, root, name);
        all = here < 0 ? -1 : all + here;
        free(rooms[i]);
    }
    if (n >= 0)
        free(rooms);
    return all;
}

/* Beside the command where it is installed: bin/../share/tigon/ascend. */
static void installed_folder(char *path, size_t size)
{
    char self[PATH_MAX / 2];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(self, '/');
    if (slash)
        *slash = '\0';
    snprintf(path, size, "%s/../%s/ascend", self, TIGON_SHARE);
}

int sources_load(sources *s, char *error, size_t size)
{
    char installed[PATH_MAX];
    installed_folder(installed, sizeof installed);
    const char *const roots[] = {installed, TIGON_SOURCE "/backends/ascend"};
    for (int i = 0; i < 2; i++) {
        const int host = read_folder(s, roots[i], ""), kernels = read_kernels(s, roots[i]);
        if (host > 0 && kernels > 0)
            return 0;
        if (host < 0 && s->nfiles)
            break;
    }
    snprintf(error, size, "the kernels' sources are neither in %s nor in %s", roots[0], roots[1]);
    return -1;
}
