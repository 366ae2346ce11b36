/* tools/tigon/share/file.c - whole files: see file.h. */
#include "file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *read_all(FILE *in, size_t *length)
{
    char *bytes = NULL;
    size_t n = 0, room = 0, got;
    do {
        if (n + 65536 + 1 > room) {
            room = 2 * room + 65536 + 1;
            char *more = realloc(bytes, room);
            if (!more) {
                free(bytes);
                return NULL;
            }
            bytes = more;
        }
        got = fread(bytes + n, 1, 65536, in);
        n += got;
    } while (got);
    if (ferror(in)) {
        free(bytes);
        return NULL;
    }
    bytes[n] = 0;
    if (length)
        *length = n;
    return bytes;
}

char *file_text(const char *path, size_t *length)
{
    FILE *in = strcmp(path, "-") ? fopen(path, "rb") : stdin;
    char *text = in ? read_all(in, length) : NULL;
    if (in && in != stdin)
        fclose(in);
    return text;
}

int file_write(const char *path, file_writer write, const void *arg)
{
    char beside[4096];
    snprintf(beside, sizeof beside, "%s.new", path);
    FILE *out = fopen(beside, "wb");
    if (!out)
        return -1;
    write(out, arg);
    const int bad = ferror(out);
    return fclose(out) || bad || rename(beside, path) ? -1 : 0;
}

int svg_is_whole(const char *text, size_t length)
{
    static const char end[] = "</svg>";
    const size_t n = sizeof end - 1;
    while (length && strchr(" \n", text[length - 1]))
        length--;
    return length >= n && !memcmp(text + length - n, end, n);
}
