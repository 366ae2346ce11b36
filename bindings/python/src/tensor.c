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

static PyObject *stream_of_external, *device_of_external; /* of a framework; NULL: not set */

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

int explain(const argument *arg)
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
