/* json.h - reads values out of a JSON text, without building anything; writes strings.
 * The text ends with a zero byte. Broken text gives NULL, never a read beyond its end. */
#ifndef LLAMA_JSON_H
#define LLAMA_JSON_H

#include <stddef.h>
#include <stdio.h>

/* The value of `key` in the object that starts at `at`; NULL if there is none. */
const char *json_get(const char *at, const char *key);

/* First and next member of an object: its key (without quotes, up to size - 1 characters) and, as
 * result, its value; NULL behind the last. */
const char *json_first(const char *object, char *key, size_t size);
const char *json_next(const char *value, char *key, size_t size);

/* Copies the string at `at`, its escapes resolved; 0 if there is no string, or no room for it. */
int json_string(const char *at, char *text, size_t size);
/* The same in memory of its own, to be freed; NULL if there is no string. */
char *json_string_new(const char *at);
/* Writes text as a JSON string, with its quotes. */
void json_print(FILE *f, const char *text);

/* Reads up to n whole numbers of the array at `at`; returns how many it holds, -1 if broken. */
int json_integers(const char *at, long long *values, int n);

#endif
