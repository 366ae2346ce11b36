/* safetensors.c - writing and reading. */
#include "safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "disk.h"
#include "ranks/ranks.h"

static int64_t elements(const part *p)
{
    return p->ndim == 2 ? p->shape[0] * p->shape[1] : p->shape[0];
}

static const char *dtype(tg_type type)
{
    return type == TG_F32 ? "F32" : "BF16";
}

/* The checksum's place in a header: 16 digits, in the metadata. It is of the whole file, with zeros for
 * these digits. */
static char *checksum_place(char *header)
{
    static const char key[] = "\"checksum\":\"";
    char *at = strstr(header, key);
    return at && strlen(at) >= sizeof(key) - 1 + 16 ? at + sizeof(key) - 1 : NULL;
}

static void *memory(void *made)
{
    if (!made)
        die("out of memory");
    return made;
}

static void add_integers(cJSON *entry, const char *key, const int64_t *values, int n)
{
    cJSON *list = memory(cJSON_AddArrayToObject(entry, key));
    for (int i = 0; i < n; i++)
        cJSON_AddItemToArray(list, memory(cJSON_CreateNumber((double)values[i])));
}

/* The header in memory; padded with blanks so that the data start on 64 bytes. */
static char *header_text(size_t *length, const cJSON *metadata, const model *m, const arena *arenas,
                         int count)
{
    cJSON *header = memory(cJSON_CreateObject());
    cJSON *texts = memory(cJSON_AddObjectToObject(header, "__metadata__"));
    const cJSON *item;
    memory(cJSON_AddStringToObject(texts, "checksum", "0000000000000000"));
    cJSON_ArrayForEach(item, metadata)
        memory(cJSON_AddStringToObject(texts, item->string, item->valuestring));
    int64_t at = 0;
    for (int a = 0; a < count; a++) {
        part p;
        for (int i = 0; model_part(m, i, &p); i++) {
            char name[128];
            snprintf(name, sizeof(name), "%s%s", arenas[a].prefix, p.name);
            cJSON *entry = memory(cJSON_AddObjectToObject(header, name));
            const int64_t end = at + elements(&p) * (int64_t)tg_type_size(arenas[a].type);
            memory(cJSON_AddStringToObject(entry, "dtype", dtype(arenas[a].type)));
            add_integers(entry, "shape", p.shape, p.ndim);
            add_integers(entry, "data_offsets", (const int64_t[]){at, end}, 2);
            at = end;
        }
    }
    char *text = memory(cJSON_PrintUnformatted(header));
    cJSON_Delete(header);
    const size_t n = strlen(text);
    *length = (n + 8 + 63) / 64 * 64 - 8;
    text = memory(realloc(text, *length + 1));
    memset(text + n, ' ', *length - n);
    text[*length] = 0;
    return text;
}

static const void *part_of(const model *m, const arena *a, const part *p)
{
    return a->sharded ? (const void *)shards_collect(&m->shards, a->data, p->offset, elements(p))
                      : (const char *)a->data + p->offset * (int64_t)tg_type_size(a->type);
}

/* The bytes of all parts, in the file's order. */
static void each_part(const model *m, const arena *arenas, int count,
                      void (*each)(void *user, const void *data, size_t bytes), void *user)
{
    for (int a = 0; a < count; a++) {
        const size_t el = tg_type_size(arenas[a].type);
        part p;
        for (int i = 0; model_part(m, i, &p); i++)
            each(user, part_of(m, &arenas[a], &p), (size_t)elements(&p) * el);
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
    memcpy(checksum_place(header), digits, 16);
    new_file f;
    new_file_open(&f, path);
    new_file_write(&f, size, sizeof(size));
    new_file_write(&f, header, length);
    each_part(m, arenas, count, write_part, &f);
    new_file_commit(&f);
    free(header);
}

/* ---- reading ---- */

static void read_all(const safetensors *s, void *to, int64_t count, int64_t at)
{
    char *p = to;
    while (count > 0) {
        const ssize_t n = pread(s->file, p, (size_t)count, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            die("%s: %s", s->path, n < 0 ? strerror(errno) : "ends too early");
        p += n;
        at += n;
        count -= n;
    }
}

/* Of the whole file, whose first 8 bytes and header have been read. */
static void check_sum(const safetensors *s, const unsigned char *size, char *header)
{
    static char piece[1 << 16];
    char *place = checksum_place(header), found[17] = "", expected[17];
    if (!place)
        die("%s: holds no checksum, expected one in its metadata", s->path);
    memcpy(found, place, 16);
    memset(place, '0', 16);
    checksum sum = {0};
    checksum_add(&sum, size, 8);
    checksum_add(&sum, header, (size_t)(s->begin - 8));
    for (int64_t at = 0; at < s->size; at += (int64_t)sizeof(piece)) {
        const int64_t left = s->size - at;
        const int64_t n = left < (int64_t)sizeof(piece) ? left : (int64_t)sizeof(piece);
        read_all(s, piece, n, s->begin + at);
        checksum_add(&sum, piece, (size_t)n);
    }
    snprintf(expected, sizeof(expected), "%016llx", (unsigned long long)checksum_of(&sum));
    if (strcmp(found, expected))
        die("%s: is damaged: its checksum is %s, expected %s as its metadata say", s->path,
            expected, found);
}

static int open_file(safetensors *s, const char *path, int must, int foreign)
{
    struct stat info;
    *s = (safetensors){.path = path, .file = open(path, O_RDONLY | O_CLOEXEC)};
    if (s->file < 0 && errno == ENOENT && !must)
        return 0;
    if (s->file < 0 || fstat(s->file, &info))
        die("%s: %s", path, strerror(errno));
    unsigned char size[8];
    if (info.st_size < 8)
        die("%s: is no safetensors file: %lld bytes", path, (long long)info.st_size);
    read_all(s, size, 8, 0);
    uint64_t length = 0;
    for (int i = 7; i >= 0; i--)
        length = length << 8 | size[i];
    if (length > (uint64_t)info.st_size - 8 || length > (uint64_t)100 << 20)
        die("%s: is no safetensors file: its header would have %llu of %lld bytes", path,
            (unsigned long long)length, (long long)info.st_size);
    char *header = memory(malloc(length + 1));
    read_all(s, header, (int64_t)length, 8);
    header[length] = 0;
    s->begin = 8 + (int64_t)length;
    s->size = info.st_size - s->begin;
    if (!foreign)
        check_sum(s, size, header);
    s->header = cJSON_Parse(header);
    free(header);
    if (!s->header)
        die("%s: is no safetensors file: its header is no JSON", path);
    return 1;
}

int safetensors_open(safetensors *s, const char *path, int must)
{
    return open_file(s, path, must, 0);
}

int safetensors_open_foreign(safetensors *s, const char *path, int must)
{
    return open_file(s, path, must, 1);
}

void safetensors_close(safetensors *s)
{
    close(s->file);
    cJSON_Delete(s->header);
}

const cJSON *safetensors_metadata(const safetensors *s)
{
    return cJSON_GetObjectItemCaseSensitive(s->header, "__metadata__");
}

const char *safetensors_text(const safetensors *s, const char *key)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(safetensors_metadata(s), key));
}

/* Whether an entry's list holds these numbers. */
static int holds(const cJSON *list, const int64_t *values, int n)
{
    if (cJSON_GetArraySize(list) != n)
        return 0;
    for (int i = 0; i < n; i++)
        if (cJSON_GetNumberValue(cJSON_GetArrayItem(list, i)) != (double)values[i])
            return 0;
    return 1;
}

/* An entry of the header: the tensor's type and its place among the data. */
typedef struct entry {
    const char *type;
    const cJSON *place;
} entry;

static entry find_entry(const safetensors *s, const char *name, const part *p)
{
    const cJSON *found = cJSON_GetObjectItemCaseSensitive(s->header, name);
    if (!found)
        die("%s: holds no tensor %s", s->path, name);
    const char *type = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(found, "dtype"));
    const cJSON *shape = cJSON_GetObjectItemCaseSensitive(found, "shape");
    if (!holds(shape, p->shape, p->ndim))
        die("%s: %s is %s, expected [%lld%s%.0lld]", s->path, name,
            shape ? (char *)memory(cJSON_PrintUnformatted(shape)) : "[]", (long long)p->shape[0],
            p->ndim == 2 ? "," : "", p->ndim == 2 ? (long long)p->shape[1] : 0);
    return (entry){type ? type : "", cJSON_GetObjectItemCaseSensitive(found, "data_offsets")};
}

/* Where so many bytes begin in the file. */
static int64_t begin_of(const safetensors *s, const char *name, const entry *e, int64_t bytes)
{
    const double at = cJSON_GetNumberValue(cJSON_GetArrayItem(e->place, 0));
    if (!(at >= 0 && at + (double)bytes <= (double)s->size) ||
        !holds(e->place, (const int64_t[]){(int64_t)at, (int64_t)at + bytes}, 2))
        die("%s: %s: its place in the file is wrong", s->path, name);
    return s->begin + (int64_t)at;
}

/* A part of an arena that is read. */
typedef struct reading {
    const safetensors *s;
    const arena *a;
    int64_t begin; /* in the file */
} reading;

static void read_slice(void *user, int64_t offset, int64_t place, int64_t n)
{
    const reading *r = user;
    const int64_t el = (int64_t)tg_type_size(r->a->type);
    read_all(r->s, (char *)r->a->data + place * el, n * el, r->begin + offset * el);
}

void safetensors_read(const safetensors *s, const model *m, const arena *a)
{
    part p;
    const int64_t el = (int64_t)tg_type_size(a->type);
    for (int i = 0; model_part(m, i, &p); i++) {
        char name[128];
        snprintf(name, sizeof(name), "%s%s", a->prefix, p.name);
        const entry e = find_entry(s, name, &p);
        if (strcmp(e.type, dtype(a->type)))
            die("%s: %s is %s, expected %s", s->path, name, e.type, dtype(a->type));
        const reading r = {s, a, begin_of(s, name, &e, elements(&p) * el)};
        if (a->sharded)
            shards_each(&m->shards, p.offset, elements(&p), read_slice, (void *)&r);
        else
            read_slice((void *)&r, 0, p.offset, elements(&p));
    }
}

static float of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* f16 has 10 bits of fraction and exponents from -14 on: what lies below is a multiple of 2^-24. */
static float half_of(uint16_t bits)
{
    const uint32_t sign = (uint32_t)(bits & 0x8000) << 16, rest = bits & 0x7fff;
    if (rest < 0x400)
        return (sign ? -1 : 1) * (float)rest * 0x1p-24f;
    const uint32_t shift =
        rest < 0x7c00 ? 112 : 224; /* of exponents; infinities and NaN have the largest */
    return of_bits(sign | ((rest << 13) + (shift << 23)));
}

static float widen(const void *from, int64_t i, int is_half)
{
    const uint16_t bits = ((const uint16_t *)from)[i];
    return is_half ? half_of(bits) : of_bits((uint32_t)bits << 16);
}

void safetensors_read_part(const safetensors *s, const part *p,
                           void (*take)(void *user, int64_t first, const float *values, int64_t n),
                           void *user)
{
    enum { RUN = 1 << 14 };
    static float values[RUN], raw[RUN];
    const entry e = find_entry(s, p->name, p);
    const int wide = !strcmp(e.type, "F32"), half = !strcmp(e.type, "F16");
    if (!wide && !half && strcmp(e.type, "BF16"))
        die("%s: %s is %s, expected F32, BF16 or F16", s->path, p->name, e.type);
    const int64_t count = elements(p), el = wide ? 4 : 2;
    const int64_t begin = begin_of(s, p->name, &e, count * el);
    for (int64_t first = 0; first < count; first += RUN) {
        const int64_t n = count - first < RUN ? count - first : RUN;
        read_all(s, wide ? values : raw, n * el, begin + first * el);
        for (int64_t i = 0; i < n && !wide; i++)
            values[i] = widen(raw, i, half);
        take(user, first, values, n);
    }
}

cJSON *json_read(const char *path, int must)
{
    struct stat info;
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 && errno == ENOENT && !must)
        return NULL;
    if (file < 0 || fstat(file, &info))
        die("%s: %s", path, strerror(errno));
    const safetensors whole = {.path = path, .file = file};
    char *text = memory(malloc((size_t)info.st_size + 1));
    read_all(&whole, text, info.st_size, 0);
    close(file);
    text[info.st_size] = 0;
    cJSON *json = cJSON_Parse(text);
    free(text);
    if (!json)
        die("%s: is no JSON", path);
    return json;
}
