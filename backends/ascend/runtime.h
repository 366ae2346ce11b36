/* runtime.h - a device, behind one table: a card through CANN's run time, or the model of one. */
#ifndef ASCEND_RUNTIME_H
#define ASCEND_RUNTIME_H

#include <tigon/backend.h>
#include <tigon/npu.h>

/* An argument of a kernel: 8 bytes, whatever it is, so that no two ways of packing them differ. */
typedef struct ascend_arg {
    uint64_t word;    /* a pointer, an integer, or the bits of a float */
    size_t bytes;     /* of a pointer: how much memory lies there; 0 for the others */
    const char *name; /* of a pointer: what messages call it */
} ascend_arg;

typedef struct ascend_info {
    char soc[64];     /* "Ascend910B4" */
    int cores;        /* vector cores */
    int64_t ub_bytes; /* of unified buffer that a kernel may use */
} ascend_info;

/* What a kernel's blocks are; of a mix kernel a cube core and its two vector cores. */
typedef enum ascend_cores { ASCEND_VECTOR_CORES, ASCEND_CUBE_CORES, ASCEND_MIX_CORES } ascend_cores;

typedef struct ascend_call {
    const char *kernel; /* its symbol */
    ascend_cores
        cores;    /* a mix kernel is given one more argument: what asc_set_ffts_base_addr() takes */
    int32_t card; /* whose the stream is; the model has one */
    int64_t blocks;
    const ascend_arg *args;
    int nargs;
    void *stream;
    tg_npu_launch *took; /* what it took; NULL: not wanted, and the launch returns at once */
    tg_npu_record
        *did; /* beside took: what the model knows; calls are freed by free(). NULL: not wanted */
} ascend_call;

/* Functions that fail set the error. */
typedef struct ascend_runtime {
    const char *label;                /* what stands before a measured time: "device", "model" */
    tg_status (*open)(void);          /* once; later calls give the first one's outcome */
    void (*close)(void);              /* at exit, if opened */
    const ascend_info *(*info)(void); /* NULL: not open */
    tg_status (*launch)(const ascend_call *call);
} ascend_runtime;

extern const ascend_runtime ascend_card, ascend_model;

/* ---- cards ----
 * CANN has a current card for each thread, and what is done is done there: the memory, streams and
 * kernels of another are refused. */

/* The calling thread's card, or card 0 if it has none, with everything that launches need. */
tg_status ascend_card_take(int32_t *card);
/* Around calls of CANN that go past this table: makes a card the calling thread's, and the one that
 * was its before again. */
tg_status ascend_card_enter(int32_t card, int32_t *before);
void ascend_card_leave(int32_t card, int32_t before);
/* A card's memory, on a context's stream. (The model's is the host's.) Copies return when the bytes
 * are there, after all that was launched on the stream. */
void *ascend_card_alloc(int32_t card, size_t bytes);
void ascend_card_free(int32_t card, void *memory);
tg_status ascend_card_copy(int32_t card, void *dst, int dst_device_type, const void *src,
                           int src_device_type, size_t bytes, void *stream);
tg_status ascend_card_sync(int32_t card, void *stream);

/* A file that belongs to the library: in the folder that the variable names, beside libtigon, or in
 * the folder of libraries it is installed in. 0 with the path, or -1 with the path where it was
 * expected. variable may be NULL. */
int ascend_find_file(const char *variable, const char *file, char *path, size_t size);

#endif
