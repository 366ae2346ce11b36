/* tokens.c - token files: 1024 bytes of header (int32 magic, version, count), then tokens, and
 * nothing behind them. */
#include "tokens.h"

#include <stdio.h>
#include <string.h>

#include "run.h"

enum { HEADER = 1024, PIECE = 1 << 18 /* tokens that are read at a time */ };

static const struct token_format {
    int32_t magic, version;
    int width;
} formats[] = {{20240520, 1, 2}, {20240801, 7, 4}};

static int width_of(const int32_t *head, const char *path)
{
    const int n = sizeof(formats) / sizeof(formats[0]);
    for (int i = 0; i < n; i++)
        if (head[0] == formats[i].magic && head[1] == formats[i].version)
            return formats[i].width;
    die("%s: magic %d, version %d; a token file has %d, %d or %d, %d", path, head[0], head[1],
        formats[0].magic, formats[0].version, formats[1].magic, formats[1].version);
}

tokens tokens_open(const char *path)
{
    int64_t bytes;
    int32_t head[3];
    tokens t = {.path = path, .file = open_to_read(path, 1, &bytes)};
    if (bytes < HEADER)
        die("%s: %lld bytes are too few for a token file's header of %d", path, (long long)bytes,
            HEADER);
    const char *wrong = read_at(t.file, head, sizeof(head), 0);
    if (wrong)
        die("%s: %s", path, wrong);
    t.width = width_of(head, path);
    t.count = head[2];
    const int64_t expected = HEADER + t.count * t.width;
    if (t.count < 0 || bytes != expected)
        die("%s: its header tells of %lld tokens of %d bits, which with it are %lld bytes; the "
            "file has %lld",
            path, (long long)t.count, t.width * 8, (long long)expected, (long long)bytes);
    return t;
}

/* Tokens from `at` on: where they are, or read into `to`; NULL if that fails. */
static const void *raw(const tokens *t, int64_t at, int64_t count, void *to, const char **wrong)
{
    if (t->bytes)
        return t->bytes + at;
    *wrong = read_at(t->file, to, count * t->width, HEADER + (t->first + at) * t->width);
    return *wrong ? NULL : to;
}

static int64_t token_at(const void *from, int width, int64_t i)
{
    return width == 1   ? ((const uint8_t *)from)[i]
           : width == 2 ? ((const uint16_t *)from)[i]
                        : ((const uint32_t *)from)[i];
}

/* At the speed of memory. */
static int64_t largest(const void *from, int width, int64_t count)
{
    const uint16_t *narrow = from;
    const uint32_t *wide = from;
    uint32_t most = 0;
    for (int64_t i = 0; width == 2 && i < count; i++)
        most = narrow[i] > most ? narrow[i] : most;
    for (int64_t i = 0; width == 4 && i < count; i++)
        most = wide[i] > most ? wide[i] : most;
    return width == 1 ? UINT8_MAX : most;
}

/* 0, and why, if one of the tokens from `at` on is not below `vocab`. */
static int are_below(const tokens *t, const void *from, int64_t at, int64_t count, int64_t vocab,
                     char *why, int size)
{
    if (largest(from, t->width, count) < vocab)
        return 1;
    for (int64_t i = 0; i < count; i++)
        if (token_at(from, t->width, i) >= vocab) {
            snprintf(why, (size_t)size, "%s: token %lld at %lld is not below the vocabulary's %lld",
                     t->path ? t->path : "the data", (long long)token_at(from, t->width, i),
                     (long long)(t->first + at + i), (long long)vocab);
            return 0;
        }
    return 1;
}

void tokens_survey(const tokens *t, int64_t vocab, checksum *sum)
{
    static uint32_t piece[PIECE];
    for (int64_t at = 0; at < t->count; at += PIECE) {
        const int64_t n = t->count - at < PIECE ? t->count - at : PIECE;
        const char *wrong;
        char why[4300];
        const void *from = raw(t, at, n, piece, &wrong);
        if (!from)
            die("%s: %s", t->path, wrong);
        if (!are_below(t, from, at, n, vocab, why, sizeof(why)))
            die("%s", why);
        checksum_add(sum, from, (size_t)(n * t->width));
    }
}

int tokens_read(const tokens *t, int64_t at, int64_t count, int64_t vocab, int64_t *to, char *why,
                int size)
{
    const char *wrong;
    const void *from = raw(t, at, count, to, &wrong); /* into the begin of its own place */
    if (!from) {
        snprintf(why, (size_t)size, "%s: %s", t->path, wrong);
        return 0;
    }
    if (!are_below(t, from, at, count, vocab, why, size))
        return 0;
    for (int64_t i = count - 1; i >= 0; i--) /* each is wider than what it is made of */
        to[i] = token_at(from, t->width, i);
    return 1;
}
