/* disk.h - files that are read, files that appear whole or not at all, and a checksum. */
#ifndef LLAMA_DISK_H
#define LLAMA_DISK_H

#include <stddef.h>
#include <stdint.h>

/* Opens a regular file, which is neither a folder nor a pipe, and tells its bytes. Leaves with a
 * message; returns -1 if there is no such file and `must` is 0. */
int open_to_read(const char *path, int must, int64_t *bytes);
/* NULL if so many bytes from an offset on have been read; else why not, in words. */
const char *read_at(int file, void *to, int64_t bytes, int64_t at);

typedef struct new_file {
    char path[4096], temporary[4096 + 8]; /* temporary is empty for what is no regular file */
    int file;
} new_file;

/* Opens path.tmp, or what a symbolic link at `path` leads to, with .tmp behind it. A device or a
 * pipe at `path` is not replaced: it is written to directly. Each function leaves with a message on
 * failure, and removes what it has begun. */
void new_file_open(new_file *f, const char *path);
void new_file_write(new_file *f, const void *data, size_t bytes);
/* Syncs, renames to path, syncs the folder. */
void new_file_commit(new_file *f);
/* Leaves with a message if no file can appear at `path`. Nothing is there afterwards that was
 * not there before. */
void new_file_try(const char *path);

/* A checksum of bytes, given in any pieces; it begins as {0}. One changed bit, or a missing or
 * added byte, always changes it. It is no protection against a change that is made on purpose. */
typedef struct checksum {
    uint64_t sum, word; /* word: the last count % 8 bytes */
    uint64_t count;
} checksum;
void checksum_add(checksum *c, const void *data, size_t bytes);
uint64_t checksum_of(const checksum *c);

/* Makes a folder and those above it. */
void make_folders(const char *path);

#endif
