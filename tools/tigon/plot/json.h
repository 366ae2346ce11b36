/* tools/tigon/plot/json.h - reads JSON: one value or several after another (JSON lines). */
#ifndef TIGON_PLOT_JSON_H
#define TIGON_PLOT_JSON_H

#include <stddef.h>

typedef enum json_kind {
    JSON_NULL,
    JSON_BOOL,
    JSON_NUMBER,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT
} json_kind;

typedef struct json_node {
    json_kind kind;
    const char *key;  /* in an object, else NULL */
    double number;    /* numbers; 0 or 1 for booleans; NaN otherwise */
    const char *text; /* strings, else "" */
    int count;        /* members of an array or object */
    struct json_node *child, *next;
} json_node;

typedef struct json_file {
    char *bytes;               /* strings point into it */
    struct json_block *blocks; /* of nodes */
    json_node *first;          /* top-level values, linked by next */
    int count;
} json_file;

/* Reads a text, which belongs to the result from now on; `path` is what messages call it. NULL with a message ("run.json:7: expected ...") on error.
 * `partial`: an incomplete last line is no error (a run that still writes). */
json_file *json_parse(char *text, size_t length, const char *path, int partial, char *error,
                      size_t size);
/* The same of a file, "-" for standard input. */
json_file *json_open(const char *path, int partial, char *error, size_t size);
void json_file_free(json_file *f);

/* Member of an object by key; NULL if there is none. */
const json_node *json_get(const json_node *object, const char *key);
/* Its text or number; "" or NaN if it has none. */
const char *json_get_text(const json_node *object, const char *key);
double json_get_number(const json_node *object, const char *key);

#endif
