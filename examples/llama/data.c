/* data.c - files to tokens to windows. */
#include "data.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "run.h"

enum {
    BLOCK = 4096, /* bytes; every tenth block of the data is held out */
    HELD_OUT_OF = 10
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

/* The sources of Tigon that this program was built from, where they lie as they did then, seen from
 * this program; NULL if they do not. */
static const char *source_tree(void)
{
    static char path[PATH_MAX + 64 + sizeof(LLAMA_SOURCE_TREE)], tree[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);
    char *name = n > 0 ? memrchr(path, '/', (size_t)n) : NULL;
    if (!name)
        return NULL;
    strcpy(name + 1, LLAMA_SOURCE_TREE);
    return realpath(path, tree) && !access(strcat(path, "/examples/llama/main.c"), R_OK) ? tree
                                                                                         : NULL;
}

static void find_own_sources(files *list)
{
    const char *tree = source_tree();
    if (tree)
        find_sources(list, tree);
    if (!list->count)
        die("no data: name files with --data, or a token file with --tokens; Tigon's own sources, "
            "which it trains on without them, are "
            "not where this program was built");
}

static tokens row_of(const bytes *b)
{
    static const char none[1];
    return (tokens){
        .bytes = (const void *)(b->at ? b->at : none), .count = (int64_t)b->count, .width = 1};
}

static void open_bytes(corpus *c, const options *o)
{
    static files sources;
    const files *list = &o->data;
    c->what = "files";
    if (!list->count) {
        find_own_sources(&sources);
        list = &sources;
        c->what = "Tigon's own sources";
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
    c->train = row_of(&train);
    c->held_out = row_of(&held_out);
}

static void open_tokens(corpus *c, const options *o)
{
    c->what = "tokens";
    c->train = tokens_open(o->tokens);
    if (o->val_tokens) {
        c->held_out = tokens_open(o->val_tokens);
        return;
    }
    const int64_t part = c->train.count / 20, held = part < 1 << 20 ? part : 1 << 20;
    c->train.count -= held;
    c->held_out = c->train;
    c->held_out.first = c->train.count;
    c->held_out.count = held;
}

/* Whatever else is wrong with the data is found now, not after hours. */
static void survey(corpus *c, const options *o)
{
    checksum sum = {0}, of_held_out = {0};
    if (!o->eval_only)
        tokens_survey(&c->train, o->vocab, &sum);
    tokens_survey(&c->held_out, o->vocab, &of_held_out);
    c->hash = checksum_of(&sum) | 1;
}

void data_open(corpus *c, const options *o)
{
    *c = (corpus){0};
    (o->tokens ? open_tokens : open_bytes)(c, o);
    if (c->train.count <= o->seq)
        die("%lld tokens of data are too few for a window of %lld and the token after it",
            (long long)c->train.count, (long long)o->seq);
    if ((o->val.count || o->val_tokens) && !data_held_out_windows(c, o))
        die("%s: %lld tokens are too few for a window of %lld and the token after it",
            o->val_tokens ? "--val-tokens" : "--val", (long long)c->held_out.count,
            (long long)o->seq);
    survey(c, o);
}

/* ---- windows ---- */

static int window(corpus *c, const tokens *t, const options *o, int64_t start, int64_t *in,
                  int64_t *target)
{
    /* the inputs are the first token and, behind it, the targets but for the last one */
    if (!tokens_read(t, start + 1, o->seq, o->vocab, target, c->lost, sizeof(c->lost)) ||
        !tokens_read(t, start, 1, o->vocab, in, c->lost, sizeof(c->lost)))
        return 0;
    memcpy(in + 1, target, (size_t)(o->seq - 1) * sizeof(*in));
    return 1;
}

void data_train(corpus *c, const options *o, int64_t first_window, int64_t *in, int64_t *target)
{
    const uint64_t starts = (uint64_t)(c->train.count - o->seq);
    for (int64_t b = 0; b < o->batch; b++) {
        const uint64_t random = hash_at((uint64_t)o->seed, (uint64_t)(first_window + b));
        if (!window(c, &c->train, o, (int64_t)(random % starts), in + b * o->seq,
                    target + b * o->seq))
            return;
    }
}

int64_t data_held_out_windows(const corpus *c, const options *o)
{
    const int64_t there = c->held_out.count > 0 ? (c->held_out.count - 1) / o->seq : 0;
    return there < o->eval_windows ? there : o->eval_windows;
}

void data_held_out(corpus *c, const options *o, int64_t first_window, int64_t *in, int64_t *target)
{
    const int64_t left = data_held_out_windows(c, o) - first_window;
    for (int64_t b = 0; b < o->batch && b < left; b++)
        if (!window(c, &c->held_out, o, (first_window + b) * o->seq, in + b * o->seq,
                    target + b * o->seq))
            return;
    for (int64_t i = left * o->seq; i < o->batch * o->seq; i++) {
        in[i] = 0;
        target[i] = -100;
    }
}
