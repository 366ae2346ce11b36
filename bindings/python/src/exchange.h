/* DLPack as Python objects speak it: capsules of __dlpack__(), and the table of C functions of
 * type(x).__dlpack_c_exchange_api__ (DLPack 1.2 and newer). Layouts are those of the specification;
 * a DLTensor is a tg_tensor. */
#ifndef TIGON_PYTHON_EXCHANGE_H
#define TIGON_PYTHON_EXCHANGE_H

#include <stdint.h>
#include <tigon/tensor.h>

enum { DLPACK_MAJOR = 1, DLPACK_FLAG_READ_ONLY = 1, DLPACK_FLAG_COPIED = 2 };

/* In a capsule "dltensor". */
typedef struct dlpack_managed {
    tg_tensor tensor;
    void *owner;
    void (*deleter)(struct dlpack_managed *self);
} dlpack_managed;

typedef struct dlpack_version {
    uint32_t major, minor;
} dlpack_version;

/* In a capsule "dltensor_versioned". */
typedef struct dlpack_managed_versioned {
    dlpack_version version;
    void *owner;
    void (*deleter)(struct dlpack_managed_versioned *self);
    uint64_t flags;
    tg_tensor tensor;
} dlpack_managed_versioned;

/* In a capsule "dlpack_exchange_api". The functions that are not called here are plain pointers. */
typedef struct dlpack_exchange {
    dlpack_version version;
    struct dlpack_exchange *older;
    void (*allocate)(void);
    void (*managed_from_object)(void);
    void (*object_from_managed)(void);
    /* Fills in a view that lives as long as the object is left alone. NULL where the
     * framework has none. */
    int (*view_of_object)(void *object, tg_tensor *view);
    int (*current_stream)(int device_type, int32_t device_id, void **stream);
} dlpack_exchange;

#endif
