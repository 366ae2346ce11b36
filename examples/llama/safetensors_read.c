/* safetensors_read.c - reading files of named tensors. What has been read is taken out of the header, so that what is left is what nobody asked for. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "disk.h"
#include "read_json.h"
#include "safetensors.h"

static const char metadata_key[] = "__metadata__";

static void read_all(const safetensors *s, void *to, int64_t bytes, int64_t at)
{
    const char *wrong = read_at(s->file, to, bytes, at);
    if (wrong)
        die("%s: %s", s->path, wrong);
}

/* ---- opening ---- */

/* Of the whole file, whose first 8 bytes and header have been read. */
static void check_sum(const safetensors *s, const unsigned char *size, char *header)
{
    static char piece[1 << 16];
    char *place = safetensors_checksum(header), found[17] = "", expected[17];
    if (!place)
        die("%s: holds no checksum, expected one in its metadata (--load takes files of others)",
            s->path);
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

/* Where a tensor lies among the data. */
typedef struct interval {
    const char *name;
    int64_t begin, end;
} interval;

static int64_t offset(const safetensors *s, const cJSON *offsets, int i)
{
    const double at = cJSON_GetNumberValue(cJSON_GetArrayItem(offsets, i));
    return at >= 0 && at <= (double)s->size && at == (double)(int64_t)at ? (int64_t)at : -1;
}

static interval place_of(const safetensors *s, const cJSON *tensor)
{
    const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(tensor, "data_offsets");
    const interval place = {tensor->string, offset(s, offsets, 0), offset(s, offsets, 1)};
    if (cJSON_GetArraySize(offsets) != 2 || place.begin < 0 || place.end < place.begin)
        die("%s: %s: its place in the file is wrong: data_offsets %s, the data have %lld bytes",
            s->path, tensor->string, json_shown(offsets), (long long)s->size);
    return place;
}

static int by_place(const void *a, const void *b)
{
    const interval *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

/* Tensors lie one behind the other: no two share a byte, and each byte of the data belongs to one. */
static void check_places(const safetensors *s)
{
    const int n = cJSON_GetArraySize(s->header);
    interval *places = made(malloc((size_t)(n + 1) * sizeof(*places)));
    const cJSON *tensor;
    int count = 0;
    int64_t end = 0;
    cJSON_ArrayForEach(tensor, s->header) if (strcmp(tensor->string, metadata_key))
        places[count++] = place_of(s, tensor);
    qsort(places, (size_t)count, sizeof(*places), by_place);
    for (int i = 0; i < count; end = places[i++].end)
        if (places[i].begin != end)
            die("%s: %s begins at byte %lld of the data, expected %lld: tensors lie one behind the "
                "other",
                s->path, places[i].name, (long long)places[i].begin, (long long)end);
    if (end != s->size)
        die("%s: its tensors take %lld bytes, its data have %lld", s->path, (long long)end,
            (long long)s->size);
    free(places);
}

static int open_file(safetensors *s, const char *path, int must, int foreign)
{
    int64_t bytes;
    char of[sizeof(s->path) + 64];
    unsigned char size[8];
    *s = (safetensors){.file = open_to_read(path, must, &bytes)};
    if (s->file < 0)
        return 0;
    snprintf(s->path, sizeof(s->path), "%s", path);
    if (bytes < 8)
        die("%s: is no safetensors file: %lld bytes", path, (long long)bytes);
    read_all(s, size, 8, 0);
    uint64_t length = 0;
    for (int i = 7; i >= 0; i--)
        length = length << 8 | size[i];
    if (length > (uint64_t)bytes - 8 || length > (uint64_t)100 << 20)
        die("%s: is no safetensors file: its header would have %llu of %lld bytes", path,
            (unsigned long long)length, (long long)bytes);
    char *header = made(malloc(length + 1));
    read_all(s, header, (int64_t)length, 8);
    header[length] = 0;
    s->begin = 8 + (int64_t)length;
    s->size = bytes - s->begin;
    if (!foreign)
        check_sum(s, size, header);
    snprintf(of, sizeof(of), "%s: is no safetensors file: its header", path);
    s->header = json_of(header, length, of);
    free(header);
    check_places(s);
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
    return cJSON_GetObjectItemCaseSensitive(s->header, metadata_key);
}

const char *safetensors_text(const safetensors *s, const char *key)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(safetensors_metadata(s), key));
}

/* ---- tensors ---- */

static cJSON *find(const safetensors *s, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(s->header, name);
}

static const char *type_of(const cJSON *tensor)
{
    const char *type = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(tensor, "dtype"));
    return type ? type : "of no type";
}

int safetensors_holds(const safetensors *s, const char *name)
{
    return find(s, name) != NULL;
}

void safetensors_all_read(const safetensors *s)
{
    const cJSON *tensor;
    cJSON_ArrayForEach(
        tensor, s->header) if (strcmp(tensor->string, metadata_key) &&
                               !strstr(tensor->string,
                                       "rotary_emb.inv_freq")) /* older files: follows from theta */
        die("%s: holds %s, for which a Llama of these sizes (config.json, options) has no place",
            s->path, tensor->string);
}

static void forget(safetensors *s, cJSON *tensor)
{
    cJSON_Delete(cJSON_DetachItemViaPointer(s->header, tensor));
}

/* Whether a list holds these numbers and no others. */
static int holds(const cJSON *list, const int64_t *values, int n)
{
    if (cJSON_GetArraySize(list) != n)
        return 0;
    for (int i = 0; i < n; i++)
        if (cJSON_GetNumberValue(cJSON_GetArrayItem(list, i)) != (double)values[i])
            return 0;
    return 1;
}

/* A part's tensor, which has the part's shape. */
static cJSON *find_part(const safetensors *s, const char *name, const part *p)
{
    cJSON *tensor = find(s, name);
    if (!tensor)
        die("%s: holds no tensor %s", s->path, name);
    const cJSON *shape = cJSON_GetObjectItemCaseSensitive(tensor, "shape");
    if (!holds(shape, p->shape, p->ndim))
        die("%s: %s is %s, expected [%lld%s%.0lld]: %s", s->path, name, json_shown(shape),
            (long long)p->shape[0], p->ndim == 2 ? "," : "",
            p->ndim == 2 ? (long long)p->shape[1] : 0, p->sizes);
    return tensor;
}

/* Where so many bytes begin in the file. */
static int64_t begin_of(const safetensors *s, const cJSON *tensor, int64_t bytes)
{
    const interval place = place_of(s, tensor);
    if (place.end - place.begin != bytes)
        die("%s: %s: its place in the file is wrong: it has %lld bytes, expected %lld of its shape "
            "and type",
            s->path, tensor->string, (long long)(place.end - place.begin), (long long)bytes);
    return s->begin + place.begin;
}

int safetensors_drop_copy(safetensors *s, const char *name, const safetensors *of,
                          const char *original)
{
    static char x[1 << 16], y[sizeof(x)];
    cJSON *tensor = find(s, name);
    const cJSON *other = find(of, original);
    const interval a = place_of(s, tensor), b = place_of(of, other);
    if (strcmp(type_of(tensor), type_of(other)) || a.end - a.begin != b.end - b.begin)
        return 0;
    for (int64_t at = a.begin; at < a.end; at += (int64_t)sizeof(x)) {
        const int64_t n = a.end - at < (int64_t)sizeof(x) ? a.end - at : (int64_t)sizeof(x);
        read_all(s, x, n, s->begin + at);
        read_all(of, y, n, of->begin + b.begin + (at - a.begin));
        if (memcmp(x, y, (size_t)n))
            return 0;
    }
    forget(s, tensor);
    return 1;
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

void safetensors_read(safetensors *s, const model *m, const arena *a)
{
    part p;
    const int64_t el = (int64_t)tg_type_size(a->type);
    for (int i = 0; model_part(m, i, &p); i++) {
        char name[128];
        snprintf(name, sizeof(name), "%s%s", a->prefix, p.name);
        cJSON *tensor = find_part(s, name, &p);
        if (strcmp(type_of(tensor), safetensors_type(a->type)))
            die("%s: %s is %s, expected %s", s->path, name, type_of(tensor),
                safetensors_type(a->type));
        const reading r = {s, a, begin_of(s, tensor, part_elements(&p) * el)};
        if (a->sharded)
            shards_each(&m->shards, p.offset, part_elements(&p), read_slice, (void *)&r);
        else
            read_slice((void *)&r, 0, p.offset, part_elements(&p));
        forget(s, tensor);
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

void safetensors_read_part(safetensors *s, const part *p, const char *name,
                           void (*take)(void *user, int64_t first, const float *values, int64_t n),
                           void *user)
{
    enum { RUN = 1 << 14 };
    static float values[RUN], raw[RUN];
    cJSON *tensor = find_part(s, name, p);
    const char *type = type_of(tensor);
    const int wide = !strcmp(type, "F32"), half = !strcmp(type, "F16");
    if (!wide && !half && strcmp(type, "BF16"))
        die("%s: %s is %s, expected F32, BF16 or F16", s->path, name, type);
    const int64_t count = part_elements(p), el = wide ? 4 : 2;
    const int64_t begin = begin_of(s, tensor, count * el);
    for (int64_t first = 0; first < count; first += RUN) {
        const int64_t n = count - first < RUN ? count - first : RUN;
        read_all(s, wide ? values : raw, n * el, begin + first * el);
        for (int64_t i = 0; i < n && !wide; i++)
            values[i] = widen(raw, i, half);
        take(user, first, values, n);
    }
    forget(s, tensor);
}
