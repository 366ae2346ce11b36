/* safetensors.h - files of named tensors: 8 bytes of header length, a JSON header, the data. */
#ifndef LLAMA_SAFETENSORS_H
#define LLAMA_SAFETENSORS_H

#include <cjson/cJSON.h>
#include <stdint.h>
#include <stdio.h>

#include "model.h"

/* One block of memory that holds the model's parts one after another, under names with a prefix. */
typedef struct arena {
    const char *prefix;
    tg_type type;
    void *data;
    int sharded; /* each rank has its slices of it: all ranks write together */
} arena;

/* Writes the model's parts from each arena, with metadata: an object of texts, to which the file's
 * checksum is added. Rank 0 writes; all ranks call it. Leaves with a message on failure; the file
 * appears under `path` only when it is whole and on the disk. */
void safetensors_write(const char *path, const cJSON *metadata, const model *m, const arena *arenas,
                       int count);

/* The name of a type in such a file. */
const char *safetensors_type(tg_type type);
/* The checksum's place in a header: 16 digits, in the metadata; NULL if there is none. It is of the
 * whole file, with zeros for these digits. */
char *safetensors_checksum(char *header);

/* ---- reading: safetensors_open.c, safetensors_read.c ---- */

typedef struct safetensors {
    char path[4096];
    cJSON *header; /* of the metadata, and of the tensors that have not been read */
    int file;
    int64_t begin, size; /* of the data */
} safetensors;

/* Opens a file and checks its frame, that its tensors lie one behind the other, and its
 * checksum: a file that is not to the bit what was written is refused. Returns 0 if there is no
 * file and `must` is 0. */
int safetensors_open(safetensors *s, const char *path, int must);
/* The same for a file of others, which tells no checksum. */
int safetensors_open_foreign(safetensors *s, const char *path, int must);
void safetensors_close(safetensors *s);
/* Leaves with a message if the file holds a tensor that was not read: the model
 * has no place for it. */
void safetensors_all_read(const safetensors *s);

/* The metadata: an object of texts, NULL if there is none; and a text of them, until
 * the file is closed. */
const cJSON *safetensors_metadata(const safetensors *s);
const char *safetensors_text(const safetensors *s, const char *key);

int safetensors_holds(const safetensors *s, const char *name);
/* Takes a tensor out of the header, as if it had been read, if another one holds the same elements;
 * 0 if it does not. */
int safetensors_drop_copy(safetensors *s, const char *name, const safetensors *of,
                          const char *original);

/* Reads the model's parts into an arena. */
void safetensors_read(safetensors *s, const model *m, const arena *a);
/* Reads one part, of f32, bf16 or f16, which has a name there, as f32: calls back with runs of its
 * elements in their order. */
void safetensors_read_part(safetensors *s, const part *p, const char *name,
                           void (*take)(void *user, int64_t first, const float *values, int64_t n),
                           void *user);

/* ---- what these two share ---- */

#define SAFETENSORS_METADATA "__metadata__"

/* Where a tensor lies among the data. */
typedef struct interval {
    const char *name;
    int64_t begin, end;
} interval;

/* Leaves with a message if a tensor has no place there. */
interval safetensors_place(const safetensors *s, const cJSON *tensor);
/* Bytes of the file, from `at` on; leaves with a message if they cannot be read. */
void safetensors_bytes(const safetensors *s, void *to, int64_t bytes, int64_t at);

#endif
