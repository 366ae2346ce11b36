/* formats/json.c - a JSON writer: see json.h. */
#include "json.h"

#include <inttypes.h>
#include <math.h>

json json_begin(FILE *out, int lines)
{
    return (json){.out = out, .lines = lines < 0 ? -lines : lines, .tight = lines < 0};
}

static void new_line(const json *j)
{
    fputc('\n', j->out);
    for (int i = 0; !j->tight && i < j->depth; i++)
        fputs("  ", j->out);
}

static void quoted(const json *j, const char *text)
{
    fputc('"', j->out);
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p == '"' || *p == '\\')
            fprintf(j->out, "\\%c", *p);
        else if (*p < 0x20)
            fprintf(j->out, "\\u%04x", *p);
        else
            fputc(*p, j->out);
    }
    fputc('"', j->out);
}

/* What stands before a value: a comma if the object or array has a member already, a new line, the
 * key. */
static void begin_value(json *j, const char *key)
{
    if (j->depth) {
        const int first = !j->members[j->depth - 1]++;
        if (!first)
            fputc(',', j->out);
        if (j->depth <= j->lines)
            new_line(j);
        else if (!first && !j->tight)
            fputc(' ', j->out);
    }
    if (key) {
        quoted(j, key);
        fputs(j->tight ? ":" : ": ", j->out);
    }
}

static void open_level(json *j, const char *key, const char *brackets)
{
    begin_value(j, key);
    fputc(brackets[0], j->out);
    if (j->depth == JSON_DEPTH)
        return; /* deeper than any document of ours */
    j->members[j->depth] = 0;
    j->close[j->depth++] = brackets[1];
}

void json_object(json *j, const char *key)
{
    open_level(j, key, "{}");
}

void json_array(json *j, const char *key)
{
    open_level(j, key, "[]");
}

void json_close(json *j)
{
    if (!j->depth)
        return;
    j->depth--;
    if (j->members[j->depth] && j->depth < j->lines)
        new_line(j);
    fputc(j->close[j->depth], j->out);
}

void json_text(json *j, const char *key, const char *value)
{
    begin_value(j, key);
    if (value)
        quoted(j, value);
    else
        fputs("null", j->out);
}

void json_int(json *j, const char *key, int64_t value)
{
    begin_value(j, key);
    fprintf(j->out, "%" PRId64, value);
}

void json_real(json *j, const char *key, double value)
{
    begin_value(j, key);
    if (isfinite(value))
        fprintf(j->out, "%.9g", value);
    else
        fputs("null", j->out);
}

void json_bool(json *j, const char *key, int value)
{
    begin_value(j, key);
    fputs(value ? "true" : "false", j->out);
}

int json_end(json *j)
{
    fputc('\n', j->out);
    return fflush(j->out) || ferror(j->out) ? -1 : 0;
}
