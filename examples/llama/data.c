/* data.c - files to tokens. */
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

/* ---- bytes ---- */

typedef struct bytes {
    char *at;
    size_t count, room;
    int64_t *starts; /* where a file begins, or text behind what is held out */
    size_t documents, starts_room;
} bytes;

static void *grown(void *at, size_t bytes)
{
    at = realloc(at, bytes);
    if (!at)
        die("out of memory for %zu bytes of data", bytes);
    return at;
}

static void append(bytes *b, const char *from, size_t count)
{
    if (b->count + count > b->room) {
        b->room = (b->count + count) * 2;
        b->at = grown(b->at, b->room);
    }
    memcpy(b->at + b->count, from, count);
    b->count += count;
}

static void begin_document(bytes *b, size_t at)
{
    if (b->documents == b->starts_room) {
        b->starts_room = 2 * b->documents + 64;
        b->starts = grown(b->starts, b->starts_room * sizeof(*b->starts));
    }
    b->starts[b->documents++] = (int64_t)at;
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
    begin_document(b, b->count);
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
    return (tokens){.bytes = (const void *)(b->at ? b->at : none),
                    .count = (int64_t)b->count,
                    .width = 1,
                    .starts = b->starts,
                    .documents = (int64_t)b->documents};
}

/* A block of all bytes, behind what `to` has; the one before it may have gone elsewhere, and
 * the next document, `*d`, may begin in it. */
static void append_block(bytes *to, const bytes *all, size_t from, size_t count, int apart,
                         size_t *d)
{
    if (apart)
        begin_document(to, to->count);
    for (; *d < all->documents && (size_t)all->starts[*d] < from + count; ++*d)
        begin_document(to, to->count + (size_t)all->starts[*d] - from);
    append(to, all->at + from, count);
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
    size_t document = 0;
    int held = -1;
    for (int i = 0; i < list->count; i++)
        read_file(&all, list->path[i]);
    for (size_t i = 0; i < all.count; i += BLOCK) {
        const size_t n = all.count - i < BLOCK ? all.count - i : BLOCK;
        const int hold = !o->val.count && i / BLOCK % HELD_OUT_OF == HELD_OUT_OF - 1;
        append_block(hold ? &held_out : &train, &all, i, n, hold != held, &document);
        held = hold;
    }
    for (int i = 0; i < o->val.count; i++)
        read_file(&held_out, o->val.path[i]);
    free(all.at);
    free(all.starts);
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
    if (o->pack && c->train.documents)
        checksum_add(&sum, c->train.starts, (size_t)c->train.documents * sizeof(*c->train.starts));
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
