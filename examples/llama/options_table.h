/* options_table.h - the table of options, for the files that read and keep them. */
#ifndef LLAMA_OPTIONS_TABLE_H
#define LLAMA_OPTIONS_TABLE_H

#include <stddef.h>

#include "options.h"

typedef enum kind { FLAG, INTEGER, REAL, TEXT, TEXT_FILE, FILES } kind;

/* A checkpoint keeps what the course depends on; its model is given once and for all. */
enum { NOT_KEPT, COURSE, MODEL };

typedef struct option {
    const char *name;
    kind kind;
    int kept;
    size_t offset;
    double low, high;
    const char *help;
} option;

extern const option options_table[];
extern const int options_count;

const option *option_find(const char *name); /* NULL: there is none */
/* Sets an option that has one value from text. */
void option_set(options *o, const option *t, const char *text);
/* The value of a number or text in `o`; "" where there is none: what is not
 * set, flags and files. */
const char *option_text(const options *o, const option *t, char *text, size_t size);

#endif
