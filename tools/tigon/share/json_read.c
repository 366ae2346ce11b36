/* tools/tigon/share/json_read.c - a file's values by cJSON: see json_read.h. */
#include "json_read.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file.h"

#if TIGON_CJSON
#include <cjson/cJSON.h>

/* Python writes NaN and Infinity, which are no JSON. Each becomes an empty string, which is
 * no number either. */
static void without_nan(char *text)
{
    static const char *const words[] = {"NaN", "-Infinity", "Infinity"};
    for (int inside = 0; *text; text++) {
        if (inside && *text == '\\' && text[1])
            text++;
        else if (*text == '"')
            inside = !inside;
        for (size_t i = 0; !inside && i < sizeof words / sizeof *words; i++) {
            const size_t n = strlen(words[i]);
            if (!strncmp(text, words[i], n)) {
                memset(text, ' ', n);
                memcpy(text, "\"\"", 2);
                text++;
                break;
            }
        }
    }
}

static int line_of(const char *text, const char *at)
{
    int line = 1;
    for (; text < at; text++)
        line += *text == '\n';
    return line;
}

json_value *json_read_text(char *text, size_t length, const char *path, int partial, char *error,
                           size_t size)
{
    static const char blank[] = " \t\r\n";
    const char *const end = text + length;
    cJSON *values = cJSON_CreateArray();
    int count = 0;
    without_nan(text);
    for (const char *at = text + strspn(text, blank); at < end; at += strspn(at, blank), count++) {
        const char *stop = at;
        cJSON *value = cJSON_ParseWithLengthOpts(at, (size_t)(end - at), &stop, 0);
        if (!value && partial && count && !memchr(at, '\n', (size_t)(end - at)))
            break;
        if (!value || !cJSON_AddItemToArray(values, value)) {
            snprintf(error, size, "%s:%d: this is no JSON: %.*s", path, line_of(text, stop),
                     (int)strcspn(stop, "\n") < 40 ? (int)strcspn(stop, "\n") : 40, stop);
            cJSON_Delete(values);
            return NULL;
        }
        at = stop;
    }
    return values;
}

void json_free(json_value *values)
{
    cJSON_Delete(values);
}

const json_value *json_items(const json_value *array)
{
    return cJSON_IsArray(array) ? array->child : NULL;
}

const json_value *json_next(const json_value *item)
{
    return item->next;
}

const json_value *json_get(const json_value *object, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

static const char *text_of(const json_value *value)
{
    return cJSON_GetStringValue(value);
}

double json_number(const json_value *value)
{
    return cJSON_IsNumber(value) ? value->valuedouble : NAN;
}

#else /* a cross-build, and the target's cJSON is not at hand */

json_value *json_read_text(char *text, size_t length, const char *path, int partial, char *error,
                           size_t size)
{
    (void)text, (void)length, (void)partial;
    snprintf(error, size, "%s: this tigon was built without cJSON, which reads JSON", path);
    return NULL;
}
void json_free(json_value *values)
{
    (void)values;
}
const json_value *json_items(const json_value *array)
{
    return array;
}
const json_value *json_next(const json_value *item)
{
    return item;
}
const json_value *json_get(const json_value *object, const char *key)
{
    (void)key;
    return object;
}
static const char *text_of(const json_value *value)
{
    (void)value;
    return NULL;
}
double json_number(const json_value *value)
{
    (void)value;
    return NAN;
}
#endif

json_value *json_read_file(const char *path, int partial, char *error, size_t size)
{
    size_t length = 0;
    char *text = file_text(path, &length);
    if (!text) {
        snprintf(error, size, "%s: %s", path, strerror(errno));
        return NULL;
    }
    json_value *values = json_read_text(text, length, path, partial, error, size);
    free(text);
    return values;
}

const char *json_get_text(const json_value *object, const char *key)
{
    const char *text = text_of(json_get(object, key));
    return text ? text : "";
}

double json_get_number(const json_value *object, const char *key)
{
    return json_number(json_get(object, key));
}
