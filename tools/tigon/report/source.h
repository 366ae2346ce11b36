/* tools/tigon/report/source.h - what a kernel is made of, read off its source: files, calls of the vector core's API. */
#ifndef TIGON_REPORT_SOURCE_H
#define TIGON_REPORT_SOURCE_H

#include <stddef.h>

enum { SOURCE_NAME = 64, SOURCE_STEPS = 800 };

/* One call of the API: asc_exp, and where it stands. */
typedef struct source_call {
    char name[SOURCE_NAME];
    const char *purpose;
    int uses;
    char steps[SOURCE_STEPS]; /* "swiglu_forward_tile swiglu.asc.c:20, :24 exp(-|u|)" */
    const char *last;         /* function and line of the last of them */
    int last_line;
} source_call;

typedef struct sources sources;

/* Reads the sources of the library's kernels; NULL with the error if they are not there or memory is short. */
sources *sources_read(char *error, size_t size);
void sources_free(sources *s);

/* Follows a kernel (its name without the type, "swiglu_forward") or a host function ("ascend_swiglu_forward") to
 * all that it calls; may be given several. 0, or -1 if there is no such function. */
int sources_follow(sources *s, const char *function);
/* Forgets what was followed. */
void sources_forget(sources *s);

/* Of what was followed: file i, its lines, and lines of functions followed in it; NULL past the end. */
const char *sources_file(const sources *s, int i, int *lines, int *used);
/* The first sentence of the file: what its kernels compute. */
void sources_head(const sources *s, int i, char *text, size_t size);
/* The API's calls in the kernel's own files, those of the same name together. Helpers of headers that all kernels share count
 * where they are used. Returns how many there are, -1: no memory. The list is freed by free(). */
int sources_calls(const sources *s, source_call **calls);

#endif
