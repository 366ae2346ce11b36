/* tools/tigon/report/doc.h - a document of sections with sentences and tables, written as
 * text, Markdown or JSON.
 *
 *   doc *d = doc_new("Migration report: swiglu");
 *   doc_section(d, "files", "Files");
 *   doc_note(d, "%d files", n);
 *   doc_table(d, "list", columns);             names, ended by NULL
 *   doc_cell(d, "%s", path);                   row by row
 *   doc_write(d, DOC_TEXT, stdout);
 *   doc_free(d);
 */
#ifndef TIGON_REPORT_DOC_H
#define TIGON_REPORT_DOC_H

#include <stdio.h>

typedef enum doc_format { DOC_TEXT, DOC_MARKDOWN, DOC_JSON } doc_format;

typedef struct doc doc;

doc *doc_new(const char *title); /* NULL: no memory */
void doc_free(doc *d);
/* key: its name in JSON. Strings but for those of doc_note and doc_cell must
 * outlive the document. */
void doc_section(doc *d, const char *key, const char *heading);
void doc_note(doc *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
void doc_table(doc *d, const char *key, const char *const *columns);
/* The next cell of the last table. What reads as a number is one in JSON. */
void doc_cell(doc *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* 0, or -1 if memory was short or writing failed. */
int doc_write(const doc *d, doc_format format, FILE *out);

#endif
