/* tools/tigon/report/files.h - the text of the NPU kernels and of their host side. */
#ifndef TIGON_REPORT_FILES_H
#define TIGON_REPORT_FILES_H

#include <stddef.h>

/* A file's name below backends/ascend, wherever it was compiled: "kernels/maps/swiglu.asc.c". */
const char *files_name(const char *path);
/* Its text, to be freed; NULL: it is not there. */
char *files_text(const char *name);
/* The first sentence of its first comment, which says what it holds. */
void files_head(const char *text, char *head, size_t size);

#endif
