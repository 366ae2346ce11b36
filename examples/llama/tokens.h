/* tokens.h - a row of tokens: bytes in memory, or a part of a token file in llm.c's format, which
 * is read as it is needed. */
#ifndef LLAMA_TOKENS_H
#define LLAMA_TOKENS_H

#include <stdint.h>

#include "disk.h"

typedef struct tokens {
    const unsigned char *bytes; /* of a byte each; NULL: in a file */
    const char *path;
    int file, width;       /* width: bytes of a token */
    int64_t first, count;  /* of the file's tokens */
    const int64_t *starts; /* where documents begin, by what is no token; in order */
    int64_t documents;     /* how many of these */
} tokens;

/* All tokens of a file. Leaves with a message if the file is not of exactly the bytes that
 * its header tells. */
tokens tokens_open(const char *path);
/* Adds them to a checksum. Leaves with a message that names the place of the first one that is
 * not below `vocab`. */
void tokens_survey(const tokens *t, int64_t vocab, checksum *sum);
/* Some of them. 0: they are not there any more, or other ones than at the beginning;
 * then `why` says so. */
int tokens_read(const tokens *t, int64_t at, int64_t count, int64_t vocab, int64_t *to, char *why,
                int size);

#endif
