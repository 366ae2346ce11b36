/* formats/json.h - writes JSON as it goes; nothing is kept in memory.
 *
 *   json j = json_begin(stdout, 2);             the outer two levels get a line for each member
 *   json_object(&j, NULL);
 *   json_text(&j, "version", tg_version());
 *   json_array(&j, "rows");
 *   json_int(&j, NULL, 7);                      the key is NULL inside an array
 *   json_close(&j);
 *   json_close(&j);
 *   json_end(&j);
 */
#ifndef FORMATS_JSON_H
#define FORMATS_JSON_H

#include <stdint.h>
#include <stdio.h>

enum { JSON_DEPTH = 16 };

typedef struct json {
    FILE *out;
    int lines; /* levels whose members stand on lines of their own */
    int tight; /* no blanks */
    int depth;
    int members[JSON_DEPTH];
    char close[JSON_DEPTH];
} json;

json json_begin(FILE *out, int lines); /* negative: as many lines, and no blanks anywhere */
void json_object(json *j, const char *key);
void json_array(json *j, const char *key);
void json_close(json *j);
void json_text(json *j, const char *key, const char *value); /* NULL: null */
void json_int(json *j, const char *key, int64_t value);
void json_real(json *j, const char *key, double value); /* NaN, infinities: null */
void json_bool(json *j, const char *key, int value);
/* The final newline. Returns 0, or -1 if writing failed. */
int json_end(json *j);

#endif
