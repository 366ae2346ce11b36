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
 * checksum is added. Rank 0 writes; all ranks call it. Leaves with a message on failure; the file appears under `path` only when it is
 * whole and on the disk. */
void safetensors_write(const char *path, const cJSON *metadata, const model *m, const arena *arenas,
                       int count);

typedef struct safetensors {
    const char *path;
    cJSON *header;
    int file;
    int64_t begin, size; /* of the data */
} safetensors;

/* Opens a file and checks its frame and its checksum: a file that is not to the bit what was written
 * is refused. Returns 0 if there is no file and `must` is 0. */
int safetensors_open(safetensors *s, const char *path, int must);
/* The same for a file of others, which tells no checksum. */
int safetensors_open_foreign(safetensors *s, const char *path, int must);
void safetensors_close(safetensors *s);

/* The metadata: an object of texts, NULL if there is none; and a text of them, until the file is closed. */
const cJSON *safetensors_metadata(const safetensors *s);
const char *safetensors_text(const safetensors *s, const char *key);

/* Reads the model's parts into an arena. */
void safetensors_read(const safetensors *s, const model *m, const arena *a);
/* Reads one part, of f32, bf16 or f16, as f32: calls back with runs of its elements in their order. */
void safetensors_read_part(const safetensors *s, const part *p,
                           void (*take)(void *user, int64_t first, const float *values, int64_t n),
                           void *user);

/* A JSON file; NULL if there is none and `must` is 0. */
cJSON *json_read(const char *path, int must);

#endif
