/* Contexts: in host memory one a thread, in a device's memory one a stream. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "binding.h"

static pthread_key_t host_key; /* the calling thread's context for host memory */

/* Of the calling thread's last call. */
static _Thread_local struct {
    tg_ctx *ctx;
    unsigned ended; /* `ended` then */
} last;

/* Contexts of devices are used with the GIL held. Each stream has its own, since a
 * context's workspace is reused in the order of one stream. They stay until
 * contexts_release() or the process's end. */
typedef struct on_device {
    place where;
    struct kind *kind; /* NULL: of no device that has a name */
    tg_ctx *ctx;
    int asking; /* calls that are with the framework's allocator, where other threads may run */
    struct on_device *next;
} on_device;

/* By place: lists, of which there are a power of 2 and no fewer than contexts. */
static on_device **devices;
static size_t lists, count;
static unsigned ended; /* how often contexts of devices have ended */

static int batch_invariant = -1; /* of all contexts; -1: as TIGON_BATCH_INVARIANT has it */

/* Where the workspace of a device's contexts comes from are functions of a framework that has an
 * allocator of its own, or NULL. */
static struct kind {
    int device_type;
    const char *name;
    PyObject *allocate, *release;
} kinds[] = {{TG_DEVICE_CUDA, "cuda", NULL, NULL},
             {TG_DEVICE_ONEAPI, "xpu", NULL, NULL},
             {TG_DEVICE_ASCEND, "npu", NULL, NULL}};
enum { KINDS = sizeof kinds / sizeof *kinds };

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

/* TIGON_DEVICE decides what calls on host memory run on (npu-model works there); without it that is
 * the CPU, not the best device. */
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
    on_device *d = user;
    d->asking++;
    PyObject *address = PyObject_CallFunction(d->kind->allocate, "nin", (Py_ssize_t)bytes,
                                              d->where.device_id, (Py_ssize_t)d->where.stream);
    d->asking--;
    void *memory = address ? PyLong_AsVoidPtr(address) : NULL;
    Py_XDECREF(address);
    PyErr_Clear();
    return memory;
}

static void release(void *user, void *memory)
{
    on_device *d = user;
    d->asking++;
    PyObject *address = PyLong_FromVoidPtr(memory);
    PyObject *none = address ? PyObject_CallFunctionObjArgs(d->kind->release, address, NULL) : NULL;
    d->asking--;
    Py_XDECREF(address);
    Py_XDECREF(none);
    PyErr_Clear();
}

PyObject *contexts_set_allocator(PyObject *module, PyObject *args)
{
    (void)module;
    const char *device;
    PyObject *both[2];
    if (!PyArg_ParseTuple(args, "sOO", &device, &both[0], &both[1]))
        return NULL;
    for (struct kind *k = kinds; k < kinds + KINDS; k++)
        if (!strcmp(k->name, device)) {
            Py_INCREF(both[0]);
            Py_INCREF(both[1]);
            Py_XDECREF(k->allocate);
            Py_XDECREF(k->release);
            k->allocate = both[0];
            k->release = both[1];
            Py_RETURN_NONE;
        }
    return PyErr_Format(PyExc_LookupError, "there is no device %s with memory of its own", device);
}

static tg_status open_device(on_device *entry)
{
    for (struct kind *k = kinds; k < kinds + KINDS; k++)
        if (k->device_type == entry->where.device_type)
            entry->kind = k;
    tg_status status = tg_ctx_create(&entry->ctx);
    if (status == TG_OK && entry->kind)
        status = tg_ctx_set_device(entry->ctx, entry->kind->name);
    if (status == TG_OK && entry->kind)
        status = tg_ctx_set_stream(entry->ctx, entry->where.stream);
    if (status == TG_OK && entry->kind && entry->kind->allocate)
        status = tg_ctx_set_device_allocator(entry->ctx, allocate, release, entry);
    return status;
}

/* A context on an NPU works on the card that is current when it is made. -1 with a Python
 * exception. */
static int open_on_its_card(on_device *entry)
{
    PyObject *card = entry->where.is_external ? external_device(entry->where.device_id) : NULL;
    PyObject *entered = card ? PyObject_CallMethod(card, "__enter__", NULL) : NULL;
    const int may = !entry->where.is_external || entered;
    const tg_status status = may ? open_device(entry) : TG_EDEVICE;
    if (may && status != TG_OK)
        raise_status(status);
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *left =
        entered ? PyObject_CallMethod(card, "__exit__", "OOO", Py_None, Py_None, Py_None) : NULL;
    if (type)
        PyErr_Restore(type, value, trace);
    Py_XDECREF(card);
    Py_XDECREF(entered);
    Py_XDECREF(left);
    return PyErr_Occurred() ? -1 : 0;
}

/* ---- contexts of devices, found by their place ---- */

static size_t list_of(const place *where)
{
    uint64_t hash = (uintptr_t)where->stream;
    hash = (hash ^ (uint64_t)where->device_type << 48 ^ (uint64_t)where->device_id << 32) *
           UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(hash >> 32) & (lists - 1);
}

static int is_at(const on_device *d, const place *where)
{
    return d->where.stream == where->stream && d->where.device_id == where->device_id &&
           d->where.device_type == where->device_type;
}

static void put(on_device *d)
{
    on_device **list = &devices[list_of(&d->where)];
    d->next = *list;
    *list = d;
}

/* Room for one more. -1: there is no memory. */
static int make_room(void)
{
    enum { FEWEST = 16 };
    on_device **const old = devices;
    const size_t before = lists;
    if (count < lists)
        return 0;
    on_device **const made = calloc(lists ? 2 * lists : FEWEST, sizeof *made);
    if (!made)
        return -1;
    devices = made;
    lists = lists ? 2 * lists : FEWEST;
    for (size_t i = 0; i < before; i++)
        for (on_device *d = old[i], *next; d; d = next) {
            next = d->next;
            put(d);
        }
    free(old);
    return 0;
}

static tg_ctx *new_device_context(const place *where)
{
    on_device *entry = make_room() == 0 ? calloc(1, sizeof *entry) : NULL;
    if (!entry) {
        PyErr_NoMemory();
        return NULL;
    }
    entry->where = *where;
    if (open_on_its_card(entry) != 0) {
        tg_ctx_destroy(entry->ctx);
        free(entry);
        return NULL;
    }
    put(entry);
    count++;
    return entry->ctx;
}

static tg_ctx *device_context(const place *where)
{
    for (on_device *d = count ? devices[list_of(where)] : NULL; d; d = d->next)
        if (is_at(d, where))
            return d->ctx;
    return new_device_context(where);
}

static tg_ctx *as_set(tg_ctx *ctx)
{
    const int on = batch_invariant;
    if (ctx && on >= 0 && tg_ctx_batch_invariant(ctx) != on)
        tg_ctx_set_batch_invariant(ctx, on);
    return ctx;
}

/* Returns what it was before. */
PyObject *contexts_set_batch_invariant(PyObject *module, PyObject *on)
{
    (void)module;
    const char *of_environment = getenv("TIGON_BATCH_INVARIANT");
    const int before =
        batch_invariant >= 0 ? batch_invariant : of_environment && !strcmp(of_environment, "1");
    const int wanted = PyObject_IsTrue(on);
    if (wanted < 0)
        return NULL;
    batch_invariant = wanted;
    return PyBool_FromLong(before);
}

tg_ctx *context_for(const place *where)
{
    if (where->device_type == TG_DEVICE_CPU || where->device_type == 0) {
        last.ctx = pthread_getspecific(host_key);
        if (!last.ctx)
            last.ctx = host_context();
    } else {
        last.ctx = device_context(where);
        last.ended = ended;
    }
    return as_set(last.ctx);
}

tg_ctx *context_of_last_call(void)
{
    return last.ended == ended || last.ctx == pthread_getspecific(host_key) ? last.ctx : NULL;
}

tg_status contexts_sync(void)
{
    tg_status first = TG_OK;
    for (size_t i = 0; i < lists; i++)
        for (on_device *d = devices[i]; d && first == TG_OK; d = d->next)
            first = tg_sync(d->ctx);
    return first;
}

/* Takes those of a stream, or all, out of the lists, before any of them ends: what they give back
 * goes through Python. */
static on_device *take_out(const void *stream, int all)
{
    on_device *taken = NULL;
    for (size_t i = 0; i < lists; i++)
        for (on_device **at = &devices[i], *d; (d = *at);) {
            if (d->asking || !(all || d->where.stream == stream)) {
                at = &d->next;
                continue;
            }
            *at = d->next;
            d->next = taken;
            taken = d;
            count--;
        }
    return taken;
}

PyObject *contexts_release(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *stream = Py_None;
    if (!PyArg_ParseTuple(args, "|O:release", &stream))
        return NULL;
    const void *address = stream == Py_None ? NULL : PyLong_AsVoidPtr(stream);
    if (PyErr_Occurred())
        return NULL;
    long released = 0;
    on_device *const taken = take_out(address, stream == Py_None);
    ended += taken != NULL;
    for (on_device *d = taken, *next; d; d = next, released++) {
        next = d->next;
        tg_ctx_destroy(d->ctx);
        free(d);
    }
    return PyLong_FromLong(released);
}
