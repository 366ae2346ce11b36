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
    SLOTS = 1024,
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
    uint64_t words[MOST_ARGS]; /* of memory: its address, and the host's; of a binary and a
                                  function: what the model has loaded */
    double us;                 /* of an event, on a card that is the model */
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

/* ---- stand_in_model.c: the card is the model, where STAND_IN_MODEL names the folder of
 * libascsim.so; otherwise kernels are not run ---- */

int model_is_card(void);
/* The memory of the host that is the card's. */
void model_map(void *memory, size_t bytes);
void model_unmap(void *memory);
void model_written(void *memory, size_t bytes); /* by the host */
/* A file of kernels, of which it opens what is a library; else that of the model's own kernels. */
void *model_open_kernels(const char *path);
void *model_kernel(void *kernels, const char *name); /* NULL: it has none of that name */
/* 0, or FAILED: a block had to be stopped, or a kernel has a fault. */
int model_launch(const thing *function, uint32_t blocks, const thing *args);
double model_us(void); /* that all launches have taken */

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
