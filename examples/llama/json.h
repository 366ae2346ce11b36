/* json.h - reads values out of a JSON text, without copying or building anything.
 * The text ends with a zero byte. Broken text gives NULL, never a read beyond its end. */
#ifndef LLAMA_JSON_H
#define LLAMA_JSON_H

#include <stddef.h>

/* The value of `key` in the object that starts at `at`; NULL if there is none. */
const char *json_get(const char *at, const char *key);

/* First and next member of an object: its key (without quotes, up to size - 1 characters) and, as
 * result, its value; NULL behind the last. */
const char *json_first(const char *object, char *key, size_t size);
const char *json_next(const char *value, char *key, size_t size);

/* Copies the string at `at`; 0 if there is no string, or no room for it. */
int json_string(const char *at, char *text, size_t size);

/* Reads up to n whole numbers of the array at `at`; returns how many it holds, -1 if broken. */
int json_integers(const char *at, long long *values, int n);

#endif
