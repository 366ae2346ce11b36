/* Contexts: in host memory one a thread, in a device's memory one a stream. */
#include <pthread.h>
#include <stdlib.h>

#include "binding.h"

static pthread_key_t host_key; /* the calling thread's context for host memory */
static _Thread_local tg_ctx *last;

/* Contexts of devices are used with the GIL held. Each stream has its own, since a context's workspace is reused in the order of
 * one stream. They stay until the process ends. */
typedef struct on_device {
    place where;
    tg_ctx *ctx;
    struct on_device *next;
} on_device;
static on_device *devices;

static const struct {
    int device_type;
    const char *name;
} device_names[] = {{TG_DEVICE_CUDA, "cuda"},
                    {TG_DEVICE_ONEAPI, "xpu"},
                    {TG_DEVICE_ASCEND, "npu"},
                    {TG_DEVICE_EXT, "npu"}};

/* Where the workspace of devices' contexts comes from: functions of a framework that has an allocator of its own, or NULL. */
static PyObject *allocate_on_device, *free_on_device;

static void destroy(void *ctx)
{
    tg_ctx_destroy(ctx);
}

int contexts_open(void)
{
    if (pthread_key_create(&host_key, destroy) == 0)
        return 0;
    PyErr_SetString(PyExc_RuntimeError, "tigon: no key for what belongs to a thread is left");
    return -1;
}

PyObject *raise_status(tg_status status)
{
    const struct {
        tg_status status;
        PyObject *type;
    } types[] = {{TG_EINVAL, PyExc_ValueError},
                 {TG_EUNSUPPORTED, PyExc_NotImplementedError},
                 {TG_ENOMEM, PyExc_MemoryError},
                 {TG_ENOTFOUND, PyExc_LookupError}};
    PyObject *type = PyExc_RuntimeError;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].status == status)
            type = types[i].type;
    PyErr_SetString(type, tg_last_error());
    return NULL;
}

/* TIGON_DEVICE decides what calls on host memory run on (npu-model works there); without it that is the CPU, not the best device. */
static tg_ctx *host_context(void)
{
    const char *device = getenv("TIGON_DEVICE");
    tg_ctx *ctx = NULL;
    tg_status status = tg_ctx_create(&ctx);
    if (status == TG_OK && !(device && *device))
        status = tg_ctx_set_device(ctx, "cpu");
    if (status == TG_OK && pthread_setspecific(host_key, ctx) == 0)
        return ctx;
    tg_ctx_destroy(ctx);
    if (status == TG_OK)
        PyErr_NoMemory();
    else
        raise_status(status);
    return NULL;
}

/* (What went wrong is told by the library, which may do with less.) */
static void *allocate(void *user, size_t bytes)
{
    const place *where = user;
    PyObject *address = PyObject_CallFunction(allocate_on_device, "nin", (Py_ssize_t)bytes,
                                              where->device_id, (Py_ssize_t)where->stream);
    void *memory = address ? PyLong_AsVoidPtr(address) : NULL;
    Py_XDECREF(address);
    PyErr_Clear();
    return memory;
}

static void release(void *user, void *memory)
{
    (void)user;
    PyObject *address = PyLong_FromVoidPtr(memory);
    PyObject *none = address ? PyObject_CallFunctionObjArgs(free_on_device, address, NULL) : NULL;
    Py_XDECREF(address);
    Py_XDECREF(none);
    PyErr_Clear();
}

PyObject *contexts_set_allocator(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *both[2];
    if (!PyArg_ParseTuple(args, "OO", &both[0], &both[1]))
        return NULL;
    Py_INCREF(both[0]);
    Py_INCREF(both[1]);
    Py_XDECREF(allocate_on_device);
    Py_XDECREF(free_on_device);
    allocate_on_device = both[0];
    free_on_device = both[1];
    Py_RETURN_NONE;
}

static tg_status open_device(on_device *entry)
{
    const char *name = NULL;
    for (size_t i = 0; i < sizeof device_names / sizeof *device_names; i++)
        if (device_names[i].device_type == entry->where.device_type)
            name = device_names[i].name;
    tg_status status = tg_ctx_create(&entry->ctx);
    if (status == TG_OK && name)
        status = tg_ctx_set_device(entry->ctx, name);
    if (status == TG_OK && name)
        status = tg_ctx_set_stream(entry->ctx, entry->where.stream);
    if (status == TG_OK && allocate_on_device && entry->where.device_type == TG_DEVICE_CUDA)
        status = tg_ctx_set_device_allocator(entry->ctx, allocate, release, &entry->where);
    return status;
}

static tg_ctx *device_context(const place *where)
{
    for (on_device *d = devices; d; d = d->next)
        if (d->where.device_type == where->device_type && d->where.device_id == where->device_id &&
            d->where.stream == where->stream)
            return d->ctx;
    on_device *entry = calloc(1, sizeof *entry);
    if (!entry) {
        PyErr_NoMemory();
        return NULL;
    }
    entry->where = *where;
    const tg_status status = open_device(entry);
    if (status != TG_OK) {
        raise_status(status);
        tg_ctx_destroy(entry->ctx);
        free(entry);
        return NULL;
    }
    entry->next = devices;
    devices = entry;
    return entry->ctx;
}

tg_ctx *context_for(const place *where)
{
    if (where->device_type == TG_DEVICE_CPU || where->device_type == 0) {
        last = pthread_getspecific(host_key);
        if (!last)
            last = host_context();
    } else {
        last = device_context(where);
    }
    return last;
}

tg_ctx *context_of_last_call(void)
{
    return last;
}

tg_status contexts_sync(void)
{
    tg_status first = TG_OK;
    for (on_device *d = devices; d && first == TG_OK; d = d->next)
        first = tg_sync(d->ctx);
    return first;
}
