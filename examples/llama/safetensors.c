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
#include "json.h"

static int64_t elements(const part *p)
{
    return p->ndim == 2 ? p->shape[0] * p->shape[1] : p->shape[0];
}

static const char *dtype(tg_type type)
{
    return type == TG_F32 ? "F32" : "BF16";
}

static void shape_text(const part *p, char *text, size_t size)
{
    if (p->ndim == 2)
        snprintf(text, size, "%lld,%lld", (long long)p->shape[0], (long long)p->shape[1]);
    else
        snprintf(text, size, "%lld", (long long)p->shape[0]);
}

/* The checksum's place in a header: 16 digits, in the metadata. It is of the whole file, with zeros for
 * these digits. */
static char *checksum_place(char *header)
{
    static const char key[] = "\"checksum\":\"";
    char *at = strstr(header, key);
    return at && strlen(at) >= sizeof(key) - 1 + 16 ? at + sizeof(key) - 1 : NULL;
}

/* The header in memory; padded with blanks so that the data start on 64 bytes. */
static void header_text(char **text, size_t *length, const char *metadata, const model *m,
                        const arena *arenas, int count)
{
    FILE *f = open_memstream(text, length);
    if (!f)
        die("out of memory");
    fprintf(f, "{\"__metadata__\":{\"checksum\":\"%016d\",%s", 0, metadata + 1);
    int64_t at = 0;
    for (int a = 0; a < count; a++) {
        part p;
        for (int i = 0; model_part(m, i, &p); i++) {
            const int64_t end = at + elements(&p) * (int64_t)tg_type_size(arenas[a].type);
            char shape[48];
            shape_text(&p, shape, sizeof(shape));
            fprintf(f, ",\"%s%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%lld,%lld]}",
                    arenas[a].prefix, p.name, dtype(arenas[a].type), shape, (long long)at,
                    (long long)end);
            at = end;
        }
    }
    fputc('}', f);
    for (long n = ftell(f) + 8; n % 64; n++)
        fputc(' ', f);
    if (fclose(f))
        die("out of memory");
}

/* The bytes of all parts, in the file's order. */
static void each_part(const model *m, const arena *arenas, int count,
                      void (*each)(void *user, const void *data, size_t bytes), void *user)
{
    for (int a = 0; a < count; a++) {
        const size_t el = tg_type_size(arenas[a].type);
        part p;
        for (int i = 0; model_part(m, i, &p); i++)
            each(user, (const char *)arenas[a].data + (size_t)p.offset * el,
                 (size_t)elements(&p) * el);
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

void safetensors_write(const char *path, const char *metadata, const model *m, const arena *arenas,
                       int count)
{
    size_t length;
    char *header = NULL, digits[17];
    header_text(&header, &length, metadata, m, arenas, count);
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
static void check_sum(const safetensors *s, const unsigned char *size)
{
    static char piece[1 << 16];
    char *place = checksum_place(s->header), found[17] = "", expected[17];
    if (!place)
        die("%s: holds no checksum, expected one in its metadata", s->path);
    memcpy(found, place, 16);
    memset(place, '0', 16);
    checksum sum = {0};
    checksum_add(&sum, size, 8);
    checksum_add(&sum, s->header, (size_t)(s->begin - 8));
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

int safetensors_open(safetensors *s, const char *path, int must)
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
    s->header = malloc(length + 1);
    if (!s->header)
        die("out of memory");
    read_all(s, s->header, (int64_t)length, 8);
    s->header[length] = 0;
    s->begin = 8 + (int64_t)length;
    s->size = info.st_size - s->begin;
    check_sum(s, size);
    return 1;
}

void safetensors_close(safetensors *s)
{
    close(s->file);
    free(s->header);
}

int safetensors_metadata(const safetensors *s, const char *key, char *text, size_t size)
{
    const char *metadata = json_get(s->header, "__metadata__");
    const char *value = metadata ? json_get(metadata, key) : NULL;
    return value && json_string(value, text, size);
}

void safetensors_read(const safetensors *s, const model *m, const arena *a)
{
    part p;
    const int64_t el = (int64_t)tg_type_size(a->type);
    for (int i = 0; model_part(m, i, &p); i++) {
        char name[128], type[8] = "", shape[48];
        snprintf(name, sizeof(name), "%s%s", a->prefix, p.name);
        const char *entry = json_get(s->header, name);
        if (!entry)
            die("%s: holds no tensor %s", s->path, name);
        long long dims[2] = {0, 1}, at[2] = {0, 0};
        const char *value = json_get(entry, "dtype");
        if (!value || !json_string(value, type, sizeof(type)) || strcmp(type, dtype(a->type)))
            die("%s: %s is %s, expected %s", s->path, name, type, dtype(a->type));
        shape_text(&p, shape, sizeof(shape));
        const int ndim = json_integers(json_get(entry, "shape"), dims, 2);
        if (ndim != p.ndim || dims[0] != p.shape[0] || (ndim == 2 && dims[1] != p.shape[1]))
            die("%s: %s is [%lld%s%.0lld], expected [%s]", s->path, name, dims[0],
                ndim == 2 ? "," : "", ndim == 2 ? dims[1] : 0, shape);
        const int64_t bytes = elements(&p) * el;
        if (json_integers(json_get(entry, "data_offsets"), at, 2) != 2 || at[0] < 0 ||
            at[1] > s->size || at[1] - at[0] != bytes)
            die("%s: %s: its place in the file is wrong", s->path, name);
        read_all(s, (char *)a->data + p.offset * el, bytes, s->begin + at[0]);
    }
}
