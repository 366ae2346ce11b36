/* load.c - the files of a folder to parameters. */
#include "load.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "read_json.h"
#include "safetensors.h"

enum { PATH = 4096 };

static const char embed_name[] = "model.embed_tokens.weight", head_name[] = "lm_head.weight";

/* ---- files ---- */

typedef struct collection {
    const char *folder;
    safetensors *files;
    int count;
} collection;

static void path_in(char *path, const char *folder, const char *name)
{
    if (snprintf(path, PATH, "%s/%s", folder, name) >= PATH)
        die("%.40s...: the path is too long", folder);
}

static int open_file(collection *c, const char *name, int must)
{
    char path[PATH];
    path_in(path, c->folder, name);
    c->files = made(realloc(c->files, (size_t)(c->count + 1) * sizeof(*c->files)));
    const int there = safetensors_open_foreign(&c->files[c->count], path, must);
    c->count += there;
    return there;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The files that an index names. Which of them holds what, they say themselves: an index may
 * be of another time. */
static void open_indexed(collection *c, const char *index_path)
{
    cJSON *index = json_read(index_path, 0);
    const cJSON *map = cJSON_GetObjectItemCaseSensitive(index, "weight_map"), *item;
    if (!index)
        die("%s: holds neither model.safetensors nor model.safetensors.index.json", c->folder);
    const int n = cJSON_GetArraySize(map);
    if (!cJSON_IsObject(map) || !n)
        die("%s: weight_map: expected files by names of tensors, found %s", index_path,
            json_shown(map));
    const char **names = made(malloc((size_t)n * sizeof(*names)));
    int count = 0;
    cJSON_ArrayForEach(item, map)
    {
        if (!cJSON_IsString(item))
            die("%s: %s: expected a file, found %s", index_path, item->string, json_shown(item));
        names[count++] = item->valuestring;
    }
    qsort(names, (size_t)n, sizeof(*names), by_text);
    for (int i = 0; i < n; i++)
        if (i == 0 || strcmp(names[i], names[i - 1]))
            open_file(c, names[i], 1);
    free(names);
    cJSON_Delete(index);
}

/* The single file goes before an index, as in transformers. */
static collection open_files(const char *folder)
{
    collection c = {.folder = folder};
    char index_path[PATH];
    path_in(index_path, folder, "model.safetensors.index.json");
    if (!open_file(&c, "model.safetensors", 0))
        open_indexed(&c, index_path);
    return c;
}

static safetensors *file_with(const collection *c, const char *name)
{
    for (int i = 0; i < c->count; i++)
        if (safetensors_holds(&c->files[i], name))
            return &c->files[i];
    return NULL;
}

/* ---- values ---- */

typedef struct place {
    model *m;
    const part *p;
    const char *path;
} place;

/* The largest number that does not become infinity in bf16. */
#define BF16_LIMIT 0x1.fefffep127f

static void take(void *user, int64_t first, const float *values, int64_t n)
{
    const place *to = user;
    const int has = shards_has(&to->m->shards, to->p->offset);
    const float limit = to->m->type == TG_F32 ? FLT_MAX : BF16_LIMIT;
    for (int64_t i = 0; i < n; i++) {
        if (!(fabsf(values[i]) <= limit))
            die("%s: %s holds %g as its element %lld, expected finite numbers of %s", to->path,
                to->p->name, (double)values[i], (long long)(first + i), to->m->o->type);
        if (has)
            model_set(to->m, to->p->offset + first + i, values[i]);
    }
}

/* Where the output has no matrix of its own, a file may hold the only one by
 * its name, or a copy. */
static const char *name_there(const collection *c, const model *m, const part *p)
{
    const int moved = !m->o->untied && !strcmp(p->name, embed_name) && !file_with(c, embed_name);
    return moved ? head_name : p->name;
}

static void drop_copy(const collection *c, const model *m)
{
    safetensors *copy = file_with(c, head_name), *original = file_with(c, embed_name);
    if (m->o->untied || !copy || !original)
        return;
    if (!safetensors_drop_copy(copy, head_name, original, embed_name))
        die("%s: %s is not %s, though config.json says tie_word_embeddings; --untied takes both",
            copy->path, head_name, embed_name);
}

void load_parameters(model *m, const char *folder)
{
    const collection c = open_files(folder);
    part p;
    drop_copy(&c, m);
    for (int i = 0; model_part(m, i, &p); i++) {
        const char *name = name_there(&c, m, &p);
        safetensors *s = file_with(&c, name);
        if (!s)
            die("%s: holds no tensor %s", c.count == 1 ? c.files[0].path : folder, p.name);
        safetensors_read_part(s, &p, name, take, &(place){m, &p, s->path});
    }
    for (int i = 0; i < c.count; i++) {
        safetensors_all_read(&c.files[i]);
        safetensors_close(&c.files[i]);
    }
    free(c.files);
    model_params_to_device(m);
}
