/* read_json.h - JSON that others wrote: an object, and nothing in it is named twice. */
#ifndef LLAMA_READ_JSON_H
#define LLAMA_READ_JSON_H

#include <cjson/cJSON.h>
#include <stddef.h>

/* What was made, unless memory is out: then it leaves with a message. */
void *made(void *what);

/* The object that so many characters are, which a 0 follows. `of` is what the message begins with:
 * a path, and a part of that file. */
cJSON *json_of(const char *text, size_t length, const char *of);
/* The object in a file; NULL if there is none and `must` is 0. */
cJSON *json_read(const char *path, int must);

/* A member as a text, until the next call; "nothing" for NULL. */
const char *json_shown(const cJSON *value);

#endif
