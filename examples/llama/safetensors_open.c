/* safetensors_open.c - opening files of named tensors: the header, the checksum, the
 * places of tensors. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "disk.h"
#include "read_json.h"
#include "safetensors.h"

void safetensors_bytes(const safetensors *s, void *to, int64_t bytes, int64_t at)
{
    const char *wrong = read_at(s->file, to, bytes, at);
    if (wrong)
        die("%s: %s", s->path, wrong);
}

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
        safetensors_bytes(s, piece, n, s->begin + at);
        checksum_add(&sum, piece, (size_t)n);
    }
    snprintf(expected, sizeof(expected), "%016llx", (unsigned long long)checksum_of(&sum));
    if (strcmp(found, expected))
        die("%s: is damaged: its checksum is %s, expected %s as its metadata say", s->path,
            expected, found);
}

static int64_t offset(const safetensors *s, const cJSON *offsets, int i)
{
    const double at = cJSON_GetNumberValue(cJSON_GetArrayItem(offsets, i));
    return at >= 0 && at <= (double)s->size && at == (double)(int64_t)at ? (int64_t)at : -1;
}

interval safetensors_place(const safetensors *s, const cJSON *tensor)
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

/* Tensors lie one behind the other: no two share a byte, and each byte of the
 * data belongs to one. */
static void check_places(const safetensors *s)
{
    const int n = cJSON_GetArraySize(s->header);
    interval *places = made(malloc((size_t)(n + 1) * sizeof(*places)));
    const cJSON *tensor;
    int count = 0;
    int64_t end = 0;
    cJSON_ArrayForEach(tensor, s->header) if (strcmp(tensor->string, SAFETENSORS_METADATA))
        places[count++] = safetensors_place(s, tensor);
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
    safetensors_bytes(s, size, 8, 0);
    uint64_t length = 0;
    for (int i = 7; i >= 0; i--)
        length = length << 8 | size[i];
    if (length > (uint64_t)bytes - 8 || length > (uint64_t)100 << 20)
        die("%s: is no safetensors file: its header would have %llu of %lld bytes", path,
            (unsigned long long)length, (long long)bytes);
    char *header = made(malloc(length + 1));
    safetensors_bytes(s, header, (int64_t)length, 8);
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
    return cJSON_GetObjectItemCaseSensitive(s->header, SAFETENSORS_METADATA);
}

const char *safetensors_text(const safetensors *s, const char *key)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(safetensors_metadata(s), key));
}
