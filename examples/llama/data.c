/* data.c - files to tokens to windows. */
#include "data.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "disk.h"
#include "run.h"

enum {
    BLOCK = 4096, /* bytes; every tenth block of the data is held out */
    HELD_OUT_OF = 10,
    LLMC_HEADER = 1024
};

uint64_t hash_at(uint64_t seed, uint64_t i)
{
    uint64_t z = (seed + 1) * 0xd1342543de82ef95u + (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* ---- bytes ---- */

typedef struct bytes {
    char *at;
    size_t count, room;
} bytes;

static void append(bytes *b, const char *from, size_t count)
{
    if (b->count + count > b->room) {
        b->room = (b->count + count) * 2;
        b->at = realloc(b->at, b->room);
        if (!b->at)
            die("out of memory for %zu bytes of data", b->room);
    }
    memcpy(b->at + b->count, from, count);
    b->count += count;
}

static void read_file(bytes *b, const char *path)
{
    FILE *f = fopen(path, "rb");
    struct stat info;
    if (!f || fstat(fileno(f), &info))
        die("%s: %s", path, strerror(errno));
    if (S_ISDIR(info.st_mode))
        die("%s: is a folder; name files", path);
    char part[BLOCK];
    for (size_t n; (n = fread(part, 1, sizeof(part), f)) > 0;)
        append(b, part, n);
    if (ferror(f))
        die("%s: %s", path, strerror(errno));
    fclose(f);
}

static int is_text(const char *name)
{
    static const char *const ends[] = {".c",   ".h",  ".md", ".def",   ".inc",
                                       ".txt", ".sh", ".py", ".cmake", ".cu"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof(ends) / sizeof(ends[0]); i++)
        if (!strcmp(dot, ends[i]))
            return 1;
    return 0;
}

/* Adds the sources and documents below a folder, in the order of their names. */
static void find_sources(files *list, const char *folder)
{
    struct dirent **entry;
    const int count = scandir(folder, &entry, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        const char *name = entry[i]->d_name;
        char *path = NULL;
        struct stat info;
        const int skip = name[0] == '.' || !strncmp(name, "build", 5) || !strcmp(name, "out");
        if (!skip && asprintf(&path, "%s/%s", folder, name) > 0 && !lstat(path, &info)) {
            if (S_ISDIR(info.st_mode))
                find_sources(list, path);
            else if (S_ISREG(info.st_mode) && is_text(name) && list->count < MAX_FILES)
                list->path[list->count++] = path, path = NULL;
        }
        free(path);
        free(entry[i]);
    }
    if (count >= 0)
        free(entry);
}

static void open_bytes(corpus *c, const options *o)
{
    static files sources;
    const files *list = &o->data;
    c->what = "files";
    if (!list->count) {
        find_sources(&sources, LLAMA_SOURCE_TREE);
        list = &sources;
        c->what = "Tigon's own sources";
        if (!list->count)
            die("no sources in %s; name files with --data", LLAMA_SOURCE_TREE);
    }
    bytes all = {0}, train = {0}, held_out = {0};
    for (int i = 0; i < list->count; i++)
        read_file(&all, list->path[i]);
    for (size_t i = 0; i < all.count; i += BLOCK) {
        const size_t n = all.count - i < BLOCK ? all.count - i : BLOCK;
        const int hold = !o->val.count && i / BLOCK % HELD_OUT_OF == HELD_OUT_OF - 1;
        append(hold ? &held_out : &train, all.at + i, n);
    }
    for (int i = 0; i < o->val.count; i++)
        read_file(&held_out, o->val.path[i]);
    free(all.at);
    c->train = (tokens){train.at, (int64_t)train.count, 1};
    c->held_out = (tokens){held_out.at, (int64_t)held_out.count, 1};
}

/* ---- token files: 1024 bytes of header (int32 magic, version, count), then tokens ---- */

static const struct token_format {
    int32_t magic, version;
    int width; /* bytes of a token */
} token_formats[] = {{20240520, 1, 2}, {20240801, 7, 4}};

static int token_width(const int32_t *head, const char *path)
{
    const int n = sizeof(token_formats) / sizeof(token_formats[0]);
    for (int i = 0; i < n; i++)
        if (head[0] == token_formats[i].magic && head[1] == token_formats[i].version)
            return token_formats[i].width;
    die("%s: magic %d, version %d; a token file has %d, %d or %d, %d", path, head[0], head[1],
        token_formats[0].magic, token_formats[0].version, token_formats[1].magic,
        token_formats[1].version);
}

static tokens map_tokens(const char *path)
{
    struct stat info;
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &info))
        die("%s: %s", path, strerror(errno));
    if (info.st_size < LLMC_HEADER)
        die("%s: %lld bytes are too few for a token file's header of %d", path,
            (long long)info.st_size, LLMC_HEADER);
    const char *at = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_SHARED, file, 0);
    if (at == MAP_FAILED)
        die("%s: %s", path, strerror(errno));
    close(file);
    int32_t head[3];
    memcpy(head, at, sizeof(head));
    const int width = token_width(head, path);
    const int64_t there = (info.st_size - LLMC_HEADER) / width;
    if (head[2] < 0 || head[2] > there)
        die("%s: its header tells of %d tokens, the file holds %lld", path, head[2],
            (long long)there);
    return (tokens){at + LLMC_HEADER, head[2], width};
}

static void open_tokens(corpus *c, const options *o)
{
    c->what = "tokens";
    c->train = map_tokens(o->tokens);
    if (o->val_tokens) {
        c->held_out = map_tokens(o->val_tokens);
        return;
    }
    const int64_t part = c->train.count / 20, held = part < 1 << 20 ? part : 1 << 20;
    c->train.count -= held;
    const char *const behind = (const char *)c->train.at + c->train.count * c->train.width;
    c->held_out = (tokens){behind, held, c->train.width};
}

void data_open(corpus *c, const options *o)
{
    (o->tokens ? open_tokens : open_bytes)(c, o);
    if (c->train.count <= o->seq)
        die("%lld tokens of data are too few for a window of %lld and the token after it",
            (long long)c->train.count, (long long)o->seq);
    if ((o->val.count || o->val_tokens) && !data_held_out_windows(c, o))
        die("%s: %lld tokens are too few for a window of %lld and the token after it",
            o->val_tokens ? "--val-tokens" : "--val", (long long)c->held_out.count,
            (long long)o->seq);
}

uint64_t data_hash(const corpus *c)
{
    checksum sum = {0};
    checksum_add(&sum, c->train.at, (size_t)(c->train.count * c->train.width));
    return checksum_of(&sum) | 1;
}

/* ---- windows ---- */

static int64_t token_at(const tokens *t, int64_t i)
{
    return t->width == 1   ? ((const uint8_t *)t->at)[i]
           : t->width == 2 ? ((const uint16_t *)t->at)[i]
                           : ((const uint32_t *)t->at)[i];
}

static void window(const tokens *t, const options *o, int64_t start, int64_t *in, int64_t *target)
{
    for (int64_t i = 0; i < o->seq; i++) {
        const int64_t at = start + i, a = token_at(t, at), b = token_at(t, at + 1);
        if (a >= o->vocab || b >= o->vocab)
            die("token %lld at %lld is outside the vocabulary of %lld",
                (long long)(a >= o->vocab ? a : b), (long long)at, (long long)o->vocab);
        in[i] = a;
        target[i] = b;
    }
}

void data_train(const corpus *c, const options *o, int64_t first_window, int64_t *in,
                int64_t *target)
{
    const uint64_t starts = (uint64_t)(c->train.count - o->seq);
    for (int64_t b = 0; b < o->batch; b++) {
        const uint64_t random = hash_at((uint64_t)o->seed, (uint64_t)(first_window + b));
        window(&c->train, o, (int64_t)(random % starts), in + b * o->seq, target + b * o->seq);
    }
}

int64_t data_held_out_windows(const corpus *c, const options *o)
{
    const int64_t there = c->held_out.count > 0 ? (c->held_out.count - 1) / o->seq : 0;
    return there < o->eval_windows ? there : o->eval_windows;
}

int64_t data_held_out(const corpus *c, const options *o, int64_t first_window, int64_t *in,
                      int64_t *target)
{
    const int64_t left = data_held_out_windows(c, o) - first_window;
    const int64_t count = left < o->batch ? left : o->batch;
    for (int64_t b = 0; b < count; b++)
        window(&c->held_out, o, (first_window + b) * o->seq, in + b * o->seq, target + b * o->seq);
    for (int64_t i = count * o->seq; i < o->batch * o->seq; i++) {
        in[i] = 0;
        target[i] = -100;
    }
    return count;
}
