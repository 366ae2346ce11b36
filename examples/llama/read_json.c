/* read_json.c - see read_json.h. */
#include "read_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "disk.h"
#include "run.h"

void *made(void *what)
{
    if (!what)
        die("out of memory");
    return what;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const cJSON *const *)a)->string, (*(const cJSON *const *)b)->string);
}

/* Who reads JSON takes the first or the last of two members of one name. */
static void refuse_twice(const cJSON *value, const char *of)
{
    const int n = cJSON_IsObject(value) ? cJSON_GetArraySize(value) : 0;
    const cJSON **members = n ? made(malloc((size_t)n * sizeof(cJSON *))) : NULL, *item;
    int count = 0;
    cJSON_ArrayForEach(item, value)
    {
        refuse_twice(item, of);
        if (n)
            members[count++] = item;
    }
    if (!n)
        return;
    qsort(members, (size_t)count, sizeof(cJSON *), by_name);
    for (int i = 1; i < count; i++)
        if (!by_name(&members[i - 1], &members[i]))
            die("%s names %s twice", of, members[i]->string);
    free(members);
}

cJSON *json_of(const char *text, size_t length, const char *of)
{
    cJSON *json = strlen(text) == length ? cJSON_ParseWithOpts(text, NULL, 1) : NULL;
    if (!cJSON_IsObject(json))
        die("%s is no JSON object", of);
    refuse_twice(json, of);
    return json;
}

cJSON *json_read(const char *path, int must)
{
    int64_t bytes;
    const int file = open_to_read(path, must, &bytes);
    if (file < 0)
        return NULL;
    char *text = made(malloc((size_t)bytes + 1));
    const char *wrong = read_at(file, text, bytes, 0);
    if (wrong)
        die("%s: %s", path, wrong);
    close(file);
    text[bytes] = 0;
    cJSON *json = json_of(text, (size_t)bytes, path);
    free(text);
    return json;
}

const char *json_shown(const cJSON *value)
{
    static char *text;
    free(text);
    text = value ? made(cJSON_PrintUnformatted(value)) : NULL;
    return text ? text : "nothing";
}
