/* json.c - a reader of JSON, by skipping. */
#include "json.h"

#include <stdlib.h>
#include <string.h>

enum { DEPTH = 64 };

static const char *blank(const char *p)
{
    while (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r')
        p++;
    return p;
}

/* Behind the string that starts at p. */
static const char *skip_string(const char *p)
{
    if (*p++ != '"')
        return NULL;
    while (*p && *p != '"')
        p += *p == '\\' && p[1] ? 2 : 1;
    return *p ? p + 1 : NULL;
}

/* Behind the value that starts at p: brackets are counted, strings are skipped. */
static const char *skip_value(const char *p)
{
    int depth = 0;
    do {
        p = blank(p);
        if (*p == '"') {
            p = skip_string(p);
            if (!p)
                return NULL;
        } else if (*p == '{' || *p == '[') {
            if (++depth > DEPTH)
                return NULL;
            p++;
        } else if (*p == '}' || *p == ']') {
            depth--;
            p++;
        } else if (*p == ',' || *p == ':') {
            p++;
        } else if (*p) {
            p += strcspn(p, ",:]}{[\" \t\n\r");
        } else {
            return NULL;
        }
    } while (depth > 0);
    return depth == 0 ? p : NULL;
}

/* The member at p: key, colon, value. */
static const char *member(const char *p, char *key, size_t size)
{
    p = blank(p);
    if (*p != '"' || !json_string(p, key, size))
        return NULL;
    p = skip_string(p);
    p = p ? blank(p) : NULL;
    return p && *p == ':' ? blank(p + 1) : NULL;
}

const char *json_first(const char *object, char *key, size_t size)
{
    object = blank(object);
    return *object == '{' ? member(object + 1, key, size) : NULL;
}

const char *json_next(const char *value, char *key, size_t size)
{
    const char *p = skip_value(value);
    p = p ? blank(p) : NULL;
    return p && *p == ',' ? member(p + 1, key, size) : NULL;
}

const char *json_get(const char *at, const char *key)
{
    char name[160];
    const char *v = json_first(at, name, sizeof(name));
    while (v && strcmp(name, key))
        v = json_next(v, name, sizeof(name));
    return v;
}

int json_string(const char *at, char *text, size_t size)
{
    const char *end = skip_string(at);
    if (!end || (size_t)(end - at) - 2 >= size)
        return 0;
    size_t n = 0;
    for (const char *p = at + 1; p < end - 1; p++) {
        if (*p == '\\')
            p++;
        text[n++] = *p;
    }
    text[n] = 0;
    return 1;
}

int json_integers(const char *at, long long *values, int n)
{
    if (!at || *at != '[')
        return -1;
    int count = 0;
    for (const char *p = blank(at + 1); *p != ']'; p = blank(p)) {
        char *end;
        const long long value = strtoll(p, &end, 10);
        if (end == p)
            return -1;
        if (count < n)
            values[count] = value;
        count++;
        p = blank(end);
        if (*p == ',')
            p++;
        else if (*p != ']')
            return -1;
    }
    return count;
}
