/* tools/tigon/share/json_read.h - reads JSON with cJSON: one value or several after
 * another (JSON lines). */
#ifndef TIGON_SHARE_JSON_READ_H
#define TIGON_SHARE_JSON_READ_H

#include <stddef.h>

typedef struct cJSON json_value;

/* The values of a text one after another, as one array, to be freed. The text is changed. NULL with
 * a message, which calls it `path` ("run.json:7: ..."). `partial`: an incomplete last line is no
 * error (a run that still writes). */
json_value *json_read_text(char *text, size_t length, const char *path, int partial, char *error,
                           size_t size);
/* The same of a file, "-" for standard input. */
json_value *json_read_file(const char *path, int partial, char *error, size_t size);
void json_free(json_value *values);

/* The first element of an array, and the one behind an element; NULL if there is none. */
const json_value *json_items(const json_value *array);
const json_value *json_next(const json_value *item);
/* Member of an object by key; NULL if there is none. */
const json_value *json_get(const json_value *object, const char *key);
/* Its text or number; "" or NaN if it has none. */
const char *json_get_text(const json_value *object, const char *key);
double json_get_number(const json_value *object, const char *key);
double json_number(const json_value *value);

#endif
