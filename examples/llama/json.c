/* json.c - a reader of JSON, by skipping; strings are written, too. */
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

/* The character behind a backslash at p; *next is behind it. Of \u only what is one byte: nothing else is
 * written here so. */
static char escaped(const char *p, const char **next)
{
    static const char letters[] = "nrtbf", values[] = "\n\r\t\b\f";
    char digits[5] = "";
    if (*p == 'u' && strlen(p) > 4) {
        memcpy(digits, p + 1, 4);
        *next = p + 5;
        return (char)strtol(digits, NULL, 16);
    }
    const char *letter = strchr(letters, *p);
    *next = p + 1;
    return letter && *letter ? values[letter - letters] : *p;
}

int json_string(const char *at, char *text, size_t size)
{
    const char *end = skip_string(at);
    if (!end || (size_t)(end - at) - 2 >= size)
        return 0;
    size_t n = 0;
    for (const char *p = at + 1; p < end - 1;) {
        const char c = *p++;
        text[n++] = c == '\\' ? escaped(p, &p) : c;
    }
    text[n] = 0;
    return 1;
}

char *json_string_new(const char *at)
{
    const char *end = skip_string(at);
    char *text = end ? malloc((size_t)(end - at)) : NULL;
    if (text)
        json_string(at, text, (size_t)(end - at));
    return text;
}

void json_print(FILE *f, const char *text)
{
    fputc('"', f);
    for (const char *p = text; *p; p++)
        if (*p == '"' || *p == '\\')
            fprintf(f, "\\%c", *p);
        else if ((unsigned char)*p < 0x20)
            fprintf(f, "\\u%04x", *p);
        else
            fputc(*p, f);
    fputc('"', f);
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
