/* tools/tigon/report/scan.h - text of C: words, lines, comments; and what source.c knows of the sources. */
#ifndef TIGON_REPORT_SCAN_H
#define TIGON_REPORT_SCAN_H

#include <stddef.h>

#include "source.h"

enum { SCAN_FILES = 512 };

typedef struct scan_file {
    char path[256], *text;
    char *code; /* the text, comments and strings blanked: offsets are the same */
    int followed;
} scan_file;

/* A function or a macro, and its body in the file's code. */
typedef struct definition {
    char name[SOURCE_NAME];
    int file;
    const char *begin, *end;
    int followed;
} definition;

struct sources {
    int nfiles;
    scan_file file[SCAN_FILES];
    int n, room;
    definition *list;
};

/* Fills the list of files with their text: files.c. 0, or -1 with the error. */
int sources_load(sources *s, char *error, size_t size);

/* A header that kernels of all families use: asc_*, or one without ".asc." in its name. */
int scan_is_shared(const char *path);
/* The text without comments and strings; NULL: no memory. */
char *scan_code(const char *text);
int scan_is_word(char c);
/* Lines from `from` to `to`, that of `from` included. */
int scan_line(const char *from, const char *to);

/* Words one after the other: .next is set to the beginning first. 0 at the end. */
typedef struct scan_word {
    const char *at;
    size_t n;
    int is_call; /* a parenthesis follows */
    const char *next;
} scan_word;
int scan_next(scan_word *w, const char *end);

#endif
