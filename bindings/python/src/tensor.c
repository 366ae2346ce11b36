/* A tg_tensor on the memory of a Python object: through DLPack's table of C functions where the
 * object's type has one (PyTorch), through __dlpack__() otherwise (NumPy, CuPy, JAX). */
#include <string.h>

#include "binding.h"

/* Tables by type, since looking one up costs more than all else. A type that is kept
 * here is kept alive. */
enum { CACHED = 16 };
static struct {
    PyTypeObject *type;
    const dlpack_exchange *exchange; /* NULL: the type has none */
} cache[CACHED];

static PyObject *empty, *newest, *newest_on_stream;
static PyObject *stream_of_external, *device_of_external; /* of a framework; NULL: not set */

int tensors_open(void)
{
    empty = PyTuple_New(0);
    newest = Py_BuildValue("{s(ii)}", "max_version", DLPACK_MAJOR, 0);
    /* 1: CUDA's default stream, which calls on tensors without a stream of their own are put on. */
    newest_on_stream = Py_BuildValue("{s(ii)si}", "max_version", DLPACK_MAJOR, 0, "stream", 1);
    return empty && newest && newest_on_stream ? 0 : -1;
}

static const dlpack_exchange *look_up(PyTypeObject *type)
{
    PyObject *capsule = PyObject_GetAttrString((PyObject *)type, "__dlpack_c_exchange_api__");
    const dlpack_exchange *exchange = NULL;
    if (capsule && PyCapsule_CheckExact(capsule))
        exchange = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    Py_XDECREF(capsule);
    PyErr_Clear();
    while (exchange && exchange->version.major != DLPACK_MAJOR)
        exchange = exchange->older;
    return exchange && exchange->view_of_object ? exchange : NULL;
}

static const dlpack_exchange *exchange_of(PyTypeObject *type)
{
    const size_t at = (size_t)type / 64 % CACHED;
    if (cache[at].type != type) {
        const dlpack_exchange *exchange = look_up(type);
        PyTypeObject *before = cache[at].type;
        Py_INCREF(type);
        cache[at].type = type;
        cache[at].exchange = exchange;
        Py_XDECREF(before);
    }
    return cache[at].exchange;
}

/* "numpy.ndarray", for messages; a new reference, or NULL with an exception. */
static PyObject *type_name(PyObject *object)
{
    PyObject *type = (PyObject *)Py_TYPE(object);
    PyObject *module = PyObject_GetAttrString(type, "__module__");
    PyObject *name = module ? PyObject_GetAttrString(type, "__qualname__") : NULL;
    PyObject *words = NULL;
    if (name && PyUnicode_Check(module) &&
        PyUnicode_CompareWithASCIIString(module, "builtins") != 0)
        words = PyUnicode_FromFormat("%U.%U", module, name);
    else if (name)
        words = PyObject_Str(name);
    Py_XDECREF(module);
    Py_XDECREF(name);
    return words;
}

static int not_a_tensor(const argument *arg, PyObject *object)
{
    PyObject *found = type_name(object);
    if (found)
        PyErr_Format(PyExc_TypeError,
                     "%s: %s is a %U, expected a tensor (an object with __dlpack__)", arg->op,
                     arg->name, found);
    Py_XDECREF(found);
    return -1;
}

/* The first line of an exception's words (PyTorch adds where it was thrown), a new reference. */
static PyObject *first_line(PyObject *exception)
{
    PyObject *words = exception ? PyObject_Str(exception) : NULL;
    PyObject *lines = words ? PyObject_CallMethod(words, "splitlines", NULL) : NULL;
    PyObject *line = lines && PyList_Size(lines) > 0 ? PyList_GetItem(lines, 0) : NULL;
    Py_XINCREF(line);
    Py_XDECREF(words);
    Py_XDECREF(lines);
    return line;
}

/* The exception that is set, with operator and argument in front of its words, which are
 * the framework's own. */
static int explain(const argument *arg)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (PyErr_GivenExceptionMatches(type, PyExc_Exception)) {
        PyObject *words = first_line(value);
        if (words)
            PyErr_Format(PyExc_ValueError, "%s: %s cannot be taken as a tensor: %U", arg->op,
                         arg->name, words);
        Py_XDECREF(words);
    } else {
        PyErr_Restore(type, value, trace);
        return -1;
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    return -1;
}

/* ---- __dlpack__ ---- */

static int device_of(PyObject *object, long *device_type)
{
    PyObject *method = PyObject_GetAttrString(object, "__dlpack_device__");
    PyObject *pair = method ? PyObject_Call(method, empty, NULL) : NULL;
    PyObject *first = pair ? PySequence_GetItem(pair, 0) : NULL;
    *device_type = first ? PyLong_AsLong(first) : -1;
    Py_XDECREF(method);
    Py_XDECREF(pair);
    Py_XDECREF(first);
    return PyErr_Occurred() ? -1 : 0;
}

/* The capsule that the object's __dlpack__() returns, asked for the newest version
 * that both sides know. */
static PyObject *capsule_of(const argument *arg, PyObject *object)
{
    long device_type;
    PyObject *export = PyObject_GetAttrString(object, "__dlpack__");
    if (!export) {
        PyErr_Clear();
        not_a_tensor(arg, object);
        return NULL;
    }
    PyObject *capsule = NULL;
    if (PyType_Check(object)) {
        not_a_tensor(arg, object);
    } else if (device_of(object, &device_type) == 0) {
        capsule =
            PyObject_Call(export, empty, device_type == TG_DEVICE_CUDA ? newest_on_stream : newest);
        if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError)) { /* older than max_version */
            PyErr_Clear();
            capsule = PyObject_Call(export, empty, NULL);
        }
        if (!capsule)
            explain(arg);
    } else {
        explain(arg);
    }
    Py_DECREF(export);
    return capsule;
}

/* JAX's arrays never change, which its capsules, of DLPack before 1.0, have no way to say. */
static int is_of_jax(PyObject *object)
{
    PyObject *module = PyObject_GetAttrString((PyObject *)Py_TYPE(object), "__module__");
    PyObject *root = module ? PyObject_CallMethod(module, "startswith", "s", "jax") : NULL;
    const int found = root == Py_True;
    PyErr_Clear();
    Py_XDECREF(module);
    Py_XDECREF(root);
    return found;
}

static int refuse_to_write(const argument *arg, const char *why)
{
    PyErr_Format(PyExc_ValueError, "%s: %s %s, expected memory that can be written", arg->op,
                 arg->name, why);
    return -1;
}

/* A capsule that is not marked as used frees its tensor when it goes: it is the
 * owner of the view. */
static int view_of_capsule(const argument *arg, PyObject *capsule, tg_tensor *view)
{
    if (PyCapsule_IsValid(capsule, "dltensor")) {
        *view = ((const dlpack_managed *)PyCapsule_GetPointer(capsule, "dltensor"))->tensor;
        return 0;
    }
    const dlpack_managed_versioned *managed =
        PyCapsule_IsValid(capsule, "dltensor_versioned")
            ? PyCapsule_GetPointer(capsule, "dltensor_versioned")
            : NULL;
    if (!managed || managed->version.major != DLPACK_MAJOR) {
        PyErr_Format(PyExc_TypeError, "%s: what __dlpack__() of %s returned is not DLPack %d",
                     arg->op, arg->name, DLPACK_MAJOR);
        return -1;
    }
    if (arg->writes && managed->flags & DLPACK_FLAG_READ_ONLY)
        return refuse_to_write(arg, "is read-only");
    if (arg->writes && managed->flags & DLPACK_FLAG_COPIED)
        return refuse_to_write(arg, "is exported as a copy");
    *view = managed->tensor;
    return 0;
}

/* ---- external devices ---- */

PyObject *tensors_set_external(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *both[2];
    if (!PyArg_ParseTuple(args, "OO", &both[0], &both[1]))
        return NULL;
    Py_INCREF(both[0]);
    Py_INCREF(both[1]);
    Py_XDECREF(stream_of_external);
    Py_XDECREF(device_of_external);
    stream_of_external = both[0];
    device_of_external = both[1];
    Py_RETURN_NONE;
}

PyObject *external_device(int device_id)
{
    return PyObject_CallFunction(device_of_external, "i", device_id);
}

/* DLPack has no name for the NPUs of PyTorch, nor for their streams. */
static int take_external(const argument *arg, PyObject *object, tg_tensor *view, int wanted,
                         void **stream)
{
    PyObject *address =
        stream_of_external
            ? PyObject_CallFunction(stream_of_external, "Oi", object, wanted)
            : PyErr_Format(PyExc_ValueError, "it lies on an external device (DLPack's kDLExtDev)");
    if (address && wanted)
        *stream = PyLong_AsVoidPtr(address);
    Py_XDECREF(address);
    if (PyErr_Occurred())
        return explain(arg);
    view->device.device_type = TG_DEVICE_ASCEND;
    return 0;
}

/* ---- what both ways have in common ---- */

static int finish(const argument *arg, tg_tensor *view)
{
    enum { CUDA_HOST = 3 }; /* DLPack's name for pinned host memory */
    if (view->device.device_type == CUDA_HOST)
        view->device = (tg_device){TG_DEVICE_CPU, 0};
    if (view->ndim < 0 || view->ndim > TG_MAX_NDIM) {
        PyErr_Format(PyExc_ValueError, "%s: %s has %d dimensions, expected at most %d", arg->op,
                     arg->name, (int)view->ndim, TG_MAX_NDIM);
        return -1;
    }
    if (!view->data && tg_numel(view) > 0) {
        PyErr_Format(PyExc_ValueError, "%s: %s has no memory (has it been freed?)", arg->op,
                     arg->name);
        return -1;
    }
    return 0;
}

int tensor_of(const argument *arg, PyObject *object, tg_tensor *view, PyObject **owner,
              place *where)
{
    const dlpack_exchange *exchange = exchange_of(Py_TYPE(object));
    if (exchange) {
        if (exchange->view_of_object(object, view) != 0)
            return explain(arg);
    } else if (arg->writes && is_of_jax(object)) {
        return refuse_to_write(arg, "is an array of JAX, which never changes");
    } else {
        *owner = capsule_of(arg, object);
        if (!*owner || view_of_capsule(arg, *owner, view) != 0)
            return -1;
    }
    const int is_first = where->device_type == 0 || (exchange && !where->stream);
    const int is_external = view->device.device_type == TG_DEVICE_EXT;
    if (finish(arg, view) != 0 ||
        (is_external && take_external(arg, object, view, is_first, &where->stream) != 0))
        return -1;
    if (!is_first)
        return 0;
    where->device_type = view->device.device_type;
    where->device_id = view->device.device_id;
    where->is_external = is_external;
    if (where->device_type != TG_DEVICE_CPU && exchange && !is_external &&
        exchange->current_stream(where->device_type, where->device_id, &where->stream) != 0)
        return explain(arg);
    return 0;
}

int refused_for_columns(const argument *arg, const tg_tensor *view)
{
    const int n = view->ndim;
    if (n < 2 || !view->strides || view->strides[n - 1] < 2)
        return 0;
    char words[128];
    PyOS_snprintf(words, sizeof words, ": %s has stride %lld in its last dimension", arg->name,
                  (long long)view->strides[n - 1]);
    if (!strstr(tg_last_error(), words))
        return 0;
    const char *why =
        view->strides[0] == 1 ? "it is in Fortran order" : "its rows are not contiguous";
    if (arg->writes)
        PyErr_Format(PyExc_ValueError, "%s; %s: one in C order, or none, is what an output may be",
                     tg_last_error(), why);
    else
        PyErr_Format(PyExc_ValueError,
                     "%s; %s: numpy.ascontiguousarray(%s), or %s.contiguous() of PyTorch, is a "
                     "copy that is taken",
                     tg_last_error(), why, arg->name, arg->name);
    return 1;
}
