/* disk.h - a file that appears whole or not at all. */
#ifndef LLAMA_DISK_H
#define LLAMA_DISK_H

#include <stddef.h>

typedef struct new_file {
    char path[4096], temporary[4096 + 8];
    int file;
} new_file;

/* Opens path.tmp; each function leaves with a message on failure. */
void new_file_open(new_file *f, const char *path);
void new_file_write(new_file *f, const void *data, size_t bytes);
/* Syncs, renames to path, syncs the folder. */
void new_file_commit(new_file *f);

/* Makes a folder and those above it. */
void make_folders(const char *path);

#endif
