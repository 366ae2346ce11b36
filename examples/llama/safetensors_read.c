/* safetensors_read.c - reading tensors by name. What has been read is taken out of the header, so
 * that what is left is what nobody asked for. */
#include <stdlib.h>
#include <string.h>

#include "read_json.h"
#include "safetensors.h"

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
        tensor, s->header) if (strcmp(tensor->string, SAFETENSORS_METADATA) &&
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
    const interval place = safetensors_place(s, tensor);
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
    const interval a = safetensors_place(s, tensor), b = safetensors_place(of, other);
    if (strcmp(type_of(tensor), type_of(other)) || a.end - a.begin != b.end - b.begin)
        return 0;
    for (int64_t at = a.begin; at < a.end; at += (int64_t)sizeof(x)) {
        const int64_t n = a.end - at < (int64_t)sizeof(x) ? a.end - at : (int64_t)sizeof(x);
        safetensors_bytes(s, x, n, s->begin + at);
        safetensors_bytes(of, y, n, of->begin + b.begin + (at - a.begin));
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
    safetensors_bytes(r->s, (char *)r->a->data + place * el, n * el, r->begin + offset * el);
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
        else if (shards_has(&m->shards, p.offset))
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
        safetensors_bytes(s, wide ? values : raw, n * el, begin + first * el);
        for (int64_t i = 0; i < n && !wide; i++)
            values[i] = widen(raw, i, half);
        take(user, first, values, n);
    }
    forget(s, tensor);
}
