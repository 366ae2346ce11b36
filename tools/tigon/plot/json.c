/* tools/tigon/plot/json.c - a JSON reader: see json.h. */
#include "json.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "share/file.h"

enum { DEEPEST = 64, BLOCK_NODES = 512 };

typedef struct json_block {
    struct json_block *next;
    int used;
    json_node nodes[BLOCK_NODES];
} json_block;

typedef struct reader {
    json_file *file;
    const char *path;
    char *at, *end;
    int line, depth;
    char *error;
    size_t size;
} reader;

static json_node *fail(reader *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int n = snprintf(r->error, r->size, "%s:%d: ", r->path, r->line);
    if (n >= 0 && (size_t)n < r->size)
        vsnprintf(r->error + n, r->size - (size_t)n, format, args);
    va_end(args);
    return NULL;
}

static json_node *new_node(reader *r, json_kind kind)
{
    json_block *b = r->file->blocks;
    if (!b || b->used == BLOCK_NODES) {
        b = malloc(sizeof *b);
        if (!b)
            return fail(r, "out of memory");
        b->next = r->file->blocks;
        b->used = 0;
        r->file->blocks = b;
    }
    json_node *n = &b->nodes[b->used++];
    *n = (json_node){.kind = kind, .number = NAN, .text = ""};
    return n;
}

static void skip_space(reader *r)
{
    for (; r->at < r->end; r->at++) {
        if (*r->at == '\n')
            r->line++;
        else if (*r->at != ' ' && *r->at != '\t' && *r->at != '\r')
            return;
    }
}

static char *put_utf8(char *out, unsigned c)
{
    if (c < 0x80) {
        *out++ = (char)c;
    } else if (c < 0x800) {
        *out++ = (char)(0xc0 | c >> 6);
        *out++ = (char)(0x80 | (c & 0x3f));
    } else {
        *out++ = (char)(0xe0 | c >> 12);
        *out++ = (char)(0x80 | (c >> 6 & 0x3f));
        *out++ = (char)(0x80 | (c & 0x3f));
    }
    return out;
}

/* A string, unescaped in place; NULL after a failure. The closing quote becomes the final zero. */
static const char *string(reader *r)
{
    char *const start = ++r->at, *out = start;
    while (r->at < r->end && *r->at != '"') {
        if (*r->at != '\\') {
            *out++ = *r->at++;
            continue;
        }
        if (r->end - r->at < 2)
            break;
        const char c = r->at[1];
        r->at += 2;
        if (c == 'u') {
            char digits[5] = {0};
            if (r->end - r->at < 4)
                break;
            memcpy(digits, r->at, 4);
            r->at += 4;
            out = put_utf8(out, (unsigned)strtoul(digits, NULL, 16));
            continue;
        }
        static const char from[] = "nrtbf", to[] = "\n\r\t\b\f";
        const char *known = strchr(from, c);
        *out++ = known ? to[known - from] : c;
    }
    if (r->at >= r->end) {
        fail(r, "a string does not end");
        return NULL;
    }
    r->at++;
    *out = 0;
    return start;
}

static json_node *value(reader *r);

/* The members behind '[' or '{'. */
static json_node *members(reader *r, json_kind kind)
{
    json_node *list = new_node(r, kind);
    const char close = kind == JSON_OBJECT ? '}' : ']';
    if (!list)
        return NULL;
    if (++r->depth > DEEPEST)
        return fail(r, "nested too deeply");
    json_node **tail = &list->child;
    r->at++;
    for (skip_space(r); r->at < r->end && *r->at != close; skip_space(r)) {
        if (list->count && *r->at != ',')
            return fail(r, "expected ',' or '%c'", close);
        if (list->count)
            r->at++;
        skip_space(r);
        const char *key = NULL;
        if (kind == JSON_OBJECT) {
            if (r->at >= r->end || *r->at != '"')
                return fail(r, "expected a key");
            key = string(r);
            if (!key)
                return NULL;
            skip_space(r);
            if (r->at >= r->end || *r->at != ':')
                return fail(r, "expected ':' after \"%s\"", key);
            r->at++;
        }
        json_node *n = value(r);
        if (!n)
            return NULL;
        n->key = key;
        *tail = n;
        tail = &n->next;
        list->count++;
    }
    if (r->at >= r->end)
        return fail(r, "expected '%c' before the end", close);
    r->at++;
    r->depth--;
    return list;
}

static json_node *word(reader *r, const char *text, json_kind kind, double number)
{
    const size_t n = strlen(text);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, text, n))
        return NULL;
    r->at += n;
    json_node *node = new_node(r, kind);
    if (node)
        node->number = number;
    return node;
}

static json_node *value(reader *r)
{
    skip_space(r);
    if (r->at >= r->end)
        return fail(r, "expected a value before the end");
    if (*r->at == '{')
        return members(r, JSON_OBJECT);
    if (*r->at == '[')
        return members(r, JSON_ARRAY);
    if (*r->at == '"') {
        json_node *n = new_node(r, JSON_STRING);
        if (n && !(n->text = string(r)))
            return NULL;
        return n;
    }
    static const struct {
        const char *text;
        json_kind kind;
        double number;
    } words[] = {{"true", JSON_BOOL, 1},
                 {"false", JSON_BOOL, 0},
                 {"null", JSON_NULL, NAN},
                 {"NaN", JSON_NUMBER, NAN}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        json_node *n = word(r, words[i].text, words[i].kind, words[i].number);
        if (n)
            return n;
    }
    char *end;
    const double x = strtod(r->at, &end);
    if (end == r->at)
        return fail(r, "expected a value, found '%c'", *r->at);
    json_node *n = new_node(r, JSON_NUMBER);
    if (n)
        n->number = x;
    r->at = end;
    return n;
}

json_file *json_open(const char *path, int partial, char *error, size_t size)
{
    size_t length = 0;
    char *text = file_text(path, &length);
    if (text)
        return json_parse(text, length, path, partial, error, size);
    snprintf(error, size, "%s: %s", path, strerror(errno));
    return NULL;
}

json_file *json_parse(char *text, size_t length, const char *path, int partial, char *error,
                      size_t size)
{
    json_file *f = calloc(1, sizeof *f);
    if (!f) {
        snprintf(error, size, "%s: out of memory", path);
        free(text);
        return NULL;
    }
    f->bytes = text;
    reader r = {f, path, f->bytes, f->bytes + length, 1, 0, error, size};
    json_node **tail = &f->first;
    for (skip_space(&r); r.at < r.end; skip_space(&r)) {
        char *const start = r.at;
        json_node *n = value(&r);
        if (!n) {
            const int last = !memchr(start, '\n', (size_t)(r.end - start));
            if (partial && last && f->count)
                break;
            json_file_free(f);
            return NULL;
        }
        *tail = n;
        tail = &n->next;
        f->count++;
        r.depth = 0;
    }
    return f;
}

void json_file_free(json_file *f)
{
    if (!f)
        return;
    for (json_block *b = f->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    free(f->bytes);
    free(f);
}

const json_node *json_get(const json_node *object, const char *key)
{
    if (!object || object->kind != JSON_OBJECT)
        return NULL;
    for (const json_node *n = object->child; n; n = n->next)
        if (!strcmp(n->key, key))
            return n;
    return NULL;
}

const char *json_get_text(const json_node *object, const char *key)
{
    const json_node *n = json_get(object, key);
    return n ? n->text : "";
}

double json_get_number(const json_node *object, const char *key)
{
    const json_node *n = json_get(object, key);
    return n ? n->number : NAN;
}
