/* safetensors.c - writing. */
#include "safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "disk.h"
#include "ranks/ranks.h"
#include "read_json.h"

const char *safetensors_type(tg_type type)
{
    return type == TG_F32 ? "F32" : "BF16";
}

char *safetensors_checksum(char *header)
{
    static const char key[] = "\"checksum\":\"";
    char *at = strstr(header, key);
    return at && strlen(at) >= sizeof(key) - 1 + 16 ? at + sizeof(key) - 1 : NULL;
}

static void add_integers(cJSON *entry, const char *key, const int64_t *values, int n)
{
    cJSON *list = made(cJSON_AddArrayToObject(entry, key));
    for (int i = 0; i < n; i++)
        cJSON_AddItemToArray(list, made(cJSON_CreateNumber((double)values[i])));
}

/* The header in memory; padded with blanks so that the data start on 64 bytes. */
static char *header_text(size_t *length, const cJSON *metadata, const model *m, const arena *arenas,
                         int count)
{
    cJSON *header = made(cJSON_CreateObject());
    cJSON *texts = made(cJSON_AddObjectToObject(header, "__metadata__"));
    const cJSON *item;
    made(cJSON_AddStringToObject(texts, "checksum", "0000000000000000"));
    cJSON_ArrayForEach(item, metadata)
        made(cJSON_AddStringToObject(texts, item->string, item->valuestring));
    int64_t at = 0;
    for (int a = 0; a < count; a++) {
        part p;
        for (int i = 0; model_part(m, i, &p); i++) {
            char name[128];
            snprintf(name, sizeof(name), "%s%s", arenas[a].prefix, p.name);
            cJSON *entry = made(cJSON_AddObjectToObject(header, name));
            const int64_t end = at + part_elements(&p) * (int64_t)tg_type_size(arenas[a].type);
            made(cJSON_AddStringToObject(entry, "dtype", safetensors_type(arenas[a].type)));
            add_integers(entry, "shape", p.shape, p.ndim);
            add_integers(entry, "data_offsets", (const int64_t[]){at, end}, 2);
            at = end;
        }
    }
    char *text = made(cJSON_PrintUnformatted(header));
    cJSON_Delete(header);
    const size_t n = strlen(text);
    *length = (n + 8 + 63) / 64 * 64 - 8;
    text = made(realloc(text, *length + 1));
    memset(text + n, ' ', *length - n);
    text[*length] = 0;
    return text;
}

static const void *part_of(const model *m, const arena *a, const part *p)
{
    return a->sharded
               ? (const void *)shards_collect(&m->shards, a->data, p->offset, part_elements(p))
               : shards_fetch(&m->shards, a->data, tg_type_size(a->type), p->offset,
                              part_elements(p));
}

/* The bytes of all parts, in the file's order. */
static void each_part(const model *m, const arena *arenas, int count,
                      void (*each)(void *user, const void *data, size_t bytes), void *user)
{
    for (int a = 0; a < count; a++) {
        const size_t el = tg_type_size(arenas[a].type);
        part p;
        for (int i = 0; model_part(m, i, &p); i++)
            each(user, part_of(m, &arenas[a], &p), (size_t)part_elements(&p) * el);
    }
}

static void sum_part(void *sum, const void *data, size_t bytes)
{
    checksum_add(sum, data, bytes);
}

static void write_part(void *file, const void *data, size_t bytes)
{
    new_file_write(file, data, bytes);
}

/* What ranks without a file do with the bytes that the others collect. */
static void skip_part(void *user, const void *data, size_t bytes)
{
    (void)user, (void)data, (void)bytes;
}

void safetensors_write(const char *path, const cJSON *metadata, const model *m, const arena *arenas,
                       int count)
{
    if (ranks_here() > 0) {
        each_part(m, arenas, count, skip_part, NULL); /* for the checksum */
        each_part(m, arenas, count, skip_part, NULL);
        return;
    }
    size_t length;
    char *header = header_text(&length, metadata, m, arenas, count), digits[17];
    unsigned char size[8];
    for (int i = 0; i < 8; i++)
        size[i] = (unsigned char)((uint64_t)length >> 8 * i);
    checksum sum = {0};
    checksum_add(&sum, size, sizeof(size));
    checksum_add(&sum, header, length);
    each_part(m, arenas, count, sum_part, &sum);
    snprintf(digits, sizeof(digits), "%016llx", (unsigned long long)checksum_of(&sum));
    memcpy(safetensors_checksum(header), digits, 16);
    new_file f;
    new_file_open(&f, path);
    new_file_write(&f, size, sizeof(size));
    new_file_write(&f, header, length);
    each_part(m, arenas, count, write_part, &f);
    new_file_commit(&f);
    free(header);
}
