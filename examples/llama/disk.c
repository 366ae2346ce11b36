/* disk.c - reading; a file is written under a name beside its own, brought to the disk, and
 * renamed; and a checksum. */
#include "disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "run.h"

int open_to_read(const char *path, int must, int64_t *bytes)
{
    struct stat info;
    const int file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* no pipe is waited for */
    if (file < 0 && errno == ENOENT && !must)
        return -1;
    if (file < 0 || fstat(file, &info))
        die("%s: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode))
        die("%s: is %s, expected a file", path, S_ISDIR(info.st_mode) ? "a folder" : "a device");
    *bytes = info.st_size;
    return file;
}

const char *read_at(int file, void *to, int64_t bytes, int64_t at)
{
    char *p = to;
    while (bytes > 0) {
        const ssize_t n = pread(file, p, (size_t)bytes, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? strerror(errno) : "ends too early";
        p += n;
        at += n;
        bytes -= n;
    }
    return NULL;
}

void new_file_open(new_file *f, const char *path)
{
    struct stat info;
    const int there = !stat(path, &info);
    if (there && S_ISDIR(info.st_mode))
        die("%s: is a folder, expected a file", path);
    if (strlen(path) >= sizeof(f->path))
        die("%.40s...: the path is too long", path);
    const int replaced = !there || S_ISREG(info.st_mode);
    if (!there || !replaced || !realpath(path, f->path))
        snprintf(f->path, sizeof(f->path), "%s", path);
    f->temporary[0] = 0;
    if (replaced)
        snprintf(f->temporary, sizeof(f->temporary), "%s.tmp", f->path);
    const char *name = replaced ? f->temporary : f->path;
    f->file = open(name, O_WRONLY | (replaced ? O_CREAT | O_TRUNC : 0) | O_CLOEXEC, 0666);
    if (f->file < 0)
        die("%s: %s", name, strerror(errno));
}

static void give_up(const new_file *f)
{
    const int why = errno;
    if (f->temporary[0])
        unlink(f->temporary);
    die("%s: %s", f->path, strerror(why));
}

void new_file_write(new_file *f, const void *data, size_t bytes)
{
    const char *p = data;
    while (bytes > 0) {
        const ssize_t n = write(f->file, p, bytes < (size_t)1 << 30 ? bytes : (size_t)1 << 30);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            give_up(f);
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
    const int regular = f->temporary[0] != 0;
    if ((regular && fsync(f->file)) || close(f->file) || (regular && rename(f->temporary, f->path)))
        give_up(f);
    if (regular)
        sync_folder(f->path);
}

void new_file_try(const char *path)
{
    struct stat info;
    new_file f;
    if (!stat(path, &info) && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode))
        return; /* who reads a pipe would see it end */
    new_file_open(&f, path);
    close(f.file);
    unlink(f.temporary);
}

static uint64_t mix(uint64_t sum, uint64_t word)
{
    sum = (sum ^ word) * 0x9e3779b97f4a7c15u; /* odd, so that no two words give the same */
    return sum ^ sum >> 32;
}

void checksum_add(checksum *c, const void *data, size_t bytes)
{
    const unsigned char *p = data, *end = p + bytes;
    while (p < end) {
        const unsigned filled = c->count % 8;
        if (filled == 0 && end - p >= 8) {
            uint64_t word;
            memcpy(&word, p, 8);
            c->sum = mix(c->sum, word);
            c->count += 8;
            p += 8;
            continue;
        }
        c->word |= (uint64_t)*p++ << 8 * filled;
        c->count++;
        if (filled == 7) {
            c->sum = mix(c->sum, c->word);
            c->word = 0;
        }
    }
}

uint64_t checksum_of(const checksum *c)
{
    return mix(mix(c->sum, c->word), c->count);
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
