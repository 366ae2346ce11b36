/* stand_in.h - what the files of the stand-in for CANN's run time share. */
#ifndef STAND_IN_H
#define STAND_IN_H

#include <stddef.h>
#include <stdint.h>

#define API __attribute__((visibility("default")))

enum {
    FAILED = 507899,
    INVALID = 100000,
    REPEATED = 100002,
    NO_DEVICE = 107002, /* no device is set */
    SLOTS = 256,
    MOST_ARGS = 80,
    STAND_IN_SYNC = 0x51c000 /* what mix kernels signal through */
};

/* Device memory is host memory at this distance. */
static const uintptr_t moved = (uintptr_t)1 << 60;

typedef enum kind { NOTHING, MEMORY, BINARY, FUNCTION, ARGS, EVENT, STREAM } kind;

/* Whatever a handle stands for. */
typedef struct thing {
    kind is;
    int32_t device;            /* that was current when it was made */
    size_t bytes;              /* of memory */
    char name[96];             /* of a function */
    int count;                 /* of arguments */
    int done;                  /* arguments are final; an event is recorded */
    uint64_t words[MOST_ARGS]; /* of memory: its address, and the host's */
} thing;

#pragma GCC visibility push(default) /* stand_in_aclnn.c is a library of its own */

extern thing things[SLOTS];
extern int initialised, violations;
extern _Thread_local int device_is_set;
extern _Thread_local int32_t current_device;

/* ---- stand_in_record.c ---- */

void record(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Writes down what is wrong; the error that the call answers. */
int violation(const char *function, const char *what);
int64_t number(const char *variable, int64_t otherwise);
/* Counts calls of a function; 1 if this one is to fail. */
int fails(const char *function);

void *create(kind is);
thing *find(const void *handle, kind is); /* NULL: unknown */
int destroy(const char *function, void *handle, kind is);
/* A thing of the current device, or none at all; a violation otherwise. */
int is_here(const char *function, const thing *t);
/* The bytes from this address to the end of its memory; 0 if it is not the device's. */
size_t room_at(uint64_t address);

/* ---- stand_in_model.c ---- */

/* Runs a kernel on the model where STAND_IN_MODEL says that one is; 0, or an error. */
int run_on_model(const char *kernel, uint32_t blocks, const thing *args);

#pragma GCC visibility pop

/* A call of a function that needs aclInit, and, but for a few, a device. */
#define BEGIN(function, needs_device)                             \
    do {                                                          \
        record("%s", function);                                   \
        if (!initialised)                                         \
            return violation(function, "aclInit was not called"); \
        if ((needs_device) && !device_is_set)                     \
            return violation(function, "no device is set");       \
        if (fails(function))                                      \
            return FAILED;                                        \
    } while (0)

#endif
