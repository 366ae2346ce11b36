/* tools/tigon/share/file.h - whole files, in and out. */
#ifndef TIGON_SHARE_FILE_H
#define TIGON_SHARE_FILE_H

#include <stddef.h>
#include <stdio.h>

/* The file's bytes and a zero behind them, to be freed; "-" is standard input. *length (unless
 * NULL): without that zero. NULL with errno if it cannot be read. */
char *file_text(const char *path, size_t *length);

/* Writes the file anew, beside itself, and renames it. 0, or -1 with errno. */
typedef void (*file_writer)(FILE *out, const void *arg);
int file_write(const char *path, file_writer write, const void *arg);

/* 1 if the text ends as an SVG does: its writer met no full disk. */
int svg_is_whole(const char *text, size_t length);

#endif
