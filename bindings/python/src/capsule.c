/* DLPack's capsules, of objects whose type has no table of C functions: __dlpack__(). */
#include "binding.h"

static PyObject *empty, *newest, *newest_on_stream;

int capsules_open(void)
{
    empty = PyTuple_New(0);
    newest = Py_BuildValue("{s(ii)}", "max_version", DLPACK_MAJOR, 0);
    /* 1: CUDA's default stream, which calls on tensors without a stream of their own are put on. */
    newest_on_stream = Py_BuildValue("{s(ii)si}", "max_version", DLPACK_MAJOR, 0, "stream", 1);
    return empty && newest && newest_on_stream ? 0 : -1;
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

int refuse_to_write(const argument *arg, const char *why)
{
    PyErr_Format(PyExc_ValueError, "%s: %s %s, expected memory that can be written", arg->op,
                 arg->name, why);
    return -1;
}

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

PyObject *capsule_of(const argument *arg, PyObject *object)
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

int view_of_capsule(const argument *arg, PyObject *capsule, tg_tensor *view)
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
