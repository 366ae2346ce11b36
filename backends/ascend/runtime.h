/* runtime.h - what the backend asks of a device, behind one table: a card through CANN's run time, or the model. */
#ifndef ASCEND_RUNTIME_H
#define ASCEND_RUNTIME_H

#include <tigon/backend.h>

/* ---- arguments of a kernel: 8 bytes each, whatever they are, so that no two ways of packing them differ ---- */

typedef struct ascend_arg {
    uint64_t word;    /* a pointer, an integer, or the bits of a float */
    size_t bytes;     /* of a pointer: how much memory lies there; 0 for the others */
    const char *name; /* of a pointer: what messages call it */
} ascend_arg;

static inline ascend_arg ascend_memory(const void *at, size_t bytes, const char *name)
{
    return (ascend_arg){(uint64_t)(uintptr_t)at, bytes, name};
}

static inline ascend_arg ascend_i64(int64_t value)
{
    return (ascend_arg){.word = (uint64_t)value};
}

static inline ascend_arg ascend_f32(double value)
{
    const union {
        float f;
        uint32_t bits;
    } v = {.f = (float)value};
    return (ascend_arg){.word = v.bits};
}

/* ---- the device ---- */

typedef struct ascend_info {
    char soc[64];     /* "Ascend910B4" */
    int cores;        /* vector cores */
    int64_t ub_bytes; /* of unified buffer that a kernel may use */
} ascend_info;

typedef struct ascend_launch {
    const char *kernel; /* its symbol */
    int64_t blocks;
    const ascend_arg *args;
    int nargs;
    void *stream;
    double *
        device_us; /* where the device's time goes; NULL: not wanted, and the launch returns at once */
    double *device_us_low,
        *device_us_high; /* filled by the model alone: either reading of unsettled facts */
} ascend_launch;

/* Functions that fail set the error. */
typedef struct ascend_runtime {
    const char *label;                /* what stands before a measured time: "device", "model" */
    tg_status (*open)(void);          /* once; later calls give the first one's outcome */
    void (*close)(void);              /* at exit, if opened */
    const ascend_info *(*info)(void); /* NULL: not open */
    void *(*alloc)(size_t bytes);
    void (*free)(void *memory);
    /* Returns when the bytes are there, after all that was launched on the stream. */
    tg_status (*copy)(void *dst, int dst_device_type, const void *src, int src_device_type,
                      size_t bytes, void *stream);
    tg_status (*sync)(void *stream);
    tg_status (*launch)(const ascend_launch *launch);
} ascend_runtime;

extern const ascend_runtime ascend_card, ascend_model;

/* A file that belongs to the library: in the folder that the variable names, beside libtigon, or in
 * the folder of libraries it is installed in. 0 with the path, or -1 with the path where it was
 * expected. variable may be NULL. */
int ascend_find_file(const char *variable, const char *file, char *path, size_t size);

#endif
