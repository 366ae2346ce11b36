/* disk.c - write beside, sync, rename. */
#include "disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "run.h"

void new_file_open(new_file *f, const char *path)
{
    if (strlen(path) >= sizeof(f->path))
        die("%.40s...: the path is too long", path);
    snprintf(f->path, sizeof(f->path), "%s", path);
    snprintf(f->temporary, sizeof(f->temporary), "%s.tmp", path);
    f->file = open(f->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (f->file < 0)
        die("%s: %s", f->temporary, strerror(errno));
}

void new_file_write(new_file *f, const void *data, size_t bytes)
{
    const char *p = data;
    while (bytes > 0) {
        const ssize_t n = write(f->file, p, bytes < (size_t)1 << 30 ? bytes : (size_t)1 << 30);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            const int why = errno;
            unlink(f->temporary);
            die("%s: %s", f->temporary, strerror(why));
        }
        p += n;
        bytes -= (size_t)n;
    }
}

static void sync_folder(const char *path)
{
    char folder[4096];
    snprintf(folder, sizeof(folder), "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = 0;
    const int file = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file >= 0) {
        fsync(file);
        close(file);
    }
}

void new_file_commit(new_file *f)
{
    if (fsync(f->file) || close(f->file) || rename(f->temporary, f->path))
        die("%s: %s", f->path, strerror(errno));
    sync_folder(f->path);
}

void make_folders(const char *path)
{
    char part[4096];
    if (strlen(path) >= sizeof(part))
        die("%.40s...: the path is too long", path);
    for (size_t i = 1; i <= strlen(path); i++)
        if (path[i] == '/' || path[i] == 0) {
            snprintf(part, sizeof(part), "%.*s", (int)i, path);
            if (mkdir(part, 0777) && errno != EEXIST)
                die("%s: %s", part, strerror(errno));
        }
    struct stat info;
    if (stat(path, &info) || !S_ISDIR(info.st_mode))
        die("%s: is not a folder", path);
}
