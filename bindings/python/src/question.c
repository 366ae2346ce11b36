/* question.c - what can be asked of an operator for tensors of which only shapes and types are
 * told: the shapes of its outputs, and whether an implementation takes such a call. */
#include <stdlib.h>
#include <string.h>

#include "operator.h"

/* A call without data under way, and the sizes of its tensors. */
typedef struct question {
    operator op;
    call c;
    int64_t sizes[MOST_ARGS][TG_MAX_NDIM];
} question;

/* The type that a dict has by an argument's name, f32 where it has none; -1 with a Python
 * exception. */
static int type_of(PyObject *types, const char *name)
{
    PyObject *value = types ? PyMapping_GetItemString(types, name) : NULL;
    if (!value) {
        PyErr_Clear(); /* (it is not given) */
        return TG_F32;
    }
    PyObject *bytes = PyUnicode_Check(value) ? PyUnicode_AsUTF8String(value) : NULL;
    const int type = bytes ? tg_type_by_name(PyBytes_AsString(bytes)) : 0;
    if (!type && !PyErr_Occurred())
        PyErr_Format(PyExc_ValueError, "%s is of type %R, expected the name of one", name, value);
    Py_XDECREF(bytes);
    Py_DECREF(value);
    return type ? type : -1;
}

static void put_view(question *q, int i, int type, int ndim)
{
    q->c.views[i] = tg_tensor_of(NULL, (tg_type)type, ndim, q->sizes[i]);
    q->c.views[i].device.device_type =
        q->c.where.device_type ? q->c.where.device_type : TG_DEVICE_CPU;
    q->c.views[i].device.device_id = q->c.where.device_id;
    const tg_tensor *view = &q->c.views[i];
    memcpy(&q->c.slots[i], &view, sizeof view);
}

static int take_shape(question *q, int i, PyObject *shape, PyObject *types)
{
    const char *name = q->op.info->args[i].name;
    const Py_ssize_t ndim = PyTuple_Check(shape) ? PyTuple_Size(shape) : TG_MAX_NDIM + 1;
    if (ndim > TG_MAX_NDIM) {
        PyErr_Format(PyExc_ValueError, "%s: %s has more than %d dimensions", q->op.info->name, name,
                     TG_MAX_NDIM);
        return -1;
    }
    for (Py_ssize_t k = 0; k < ndim; k++)
        q->sizes[i][k] = PyLong_AsLongLong(PyTuple_GetItem(shape, k));
    const int type = PyErr_Occurred() ? -1 : type_of(types, name);
    if (type < 0)
        return -1;
    put_view(q, i, type, (int)ndim);
    return 0;
}

/* The tensors and options of a call, by name. NULL with a Python exception. */
static question *ask(const char *name, const place *where, PyObject *shapes, PyObject *types,
                     PyObject *options)
{
    const int id = tg_op_by_name(name);
    question *q = id >= 0 ? calloc(1, sizeof *q) : NULL;
    if (!q) {
        if (id < 0)
            PyErr_Format(PyExc_LookupError, "there is no operator %s", name);
        else
            PyErr_NoMemory();
        return NULL;
    }
    q->op = (operator){.id = id, .info = tg_op_at(id)};
    q->c.op = &q->op;
    q->c.where = *where;
    int wrong = 0;
    for (int i = 0; !wrong && i < q->op.info->nargs; i++) {
        const tg_arg_info *arg = &q->op.info->args[i];
        PyObject *value = PyMapping_GetItemString(is_option(arg) ? options : shapes, arg->name);
        PyErr_Clear(); /* (it is not given) */
        if (value && value != Py_None)
            wrong = is_option(arg) ? option_of(name, arg, value, &q->c.slots[i]) != 0
                                   : take_shape(q, i, value, types) != 0;
        Py_XDECREF(value);
    }
    if (!wrong)
        return q;
    free(q);
    return NULL;
}

/* output_shapes(operator, shapes by name, options by name, names of outputs) -> shapes by name */
PyObject *operators_output_shapes(PyObject *module, PyObject *args)
{
    (void)module;
    const char *name;
    PyObject *shapes, *options, *names;
    if (!PyArg_ParseTuple(args, "sOOO", &name, &shapes, &options, &names))
        return NULL;
    question *q = ask(name, &(place){0}, shapes, NULL, options);
    PyObject *made = q ? PyDict_New() : NULL;
    int wrong = !made;
    for (int i = 0; !wrong && i < q->op.info->nargs; i++) {
        PyObject *key = PyUnicode_FromString(q->op.info->args[i].name);
        PyObject *shape = NULL;
        if (key && PySequence_Contains(names, key) == 1)
            wrong = !(shape = shape_of(&q->c, i)) || PyDict_SetItem(made, key, shape) != 0;
        Py_XDECREF(key);
        Py_XDECREF(shape);
    }
    if (wrong)
        Py_CLEAR(made);
    free(q);
    return made;
}

/* Outputs that have to be there get their shapes. -1 with a Python exception. */
static int put_outputs(question *q, int type)
{
    for (int i = 0; i < q->op.info->nargs; i++) {
        int ndim;
        if (q->op.info->args[i].kind != TG_ARG_OUT || q->c.slots[i])
            continue;
        if (tg_output_shape(q->op.id, q->c.slots, i, q->sizes[i], &ndim) != TG_OK) {
            raise_status(TG_EINVAL);
            return -1;
        }
        put_view(q, i, type, ndim);
    }
    return 0;
}

/* takes(operator, device, card, types by name, shapes by name, options by name): is there, among
 * what a call on that device tries, an implementation that takes compact tensors like these?
 * Outputs are of the first input's type. */
PyObject *operators_takes(PyObject *module, PyObject *args)
{
    (void)module;
    enum { MOST = 64 };
    const char *name;
    place where;
    PyObject *types, *shapes, *options;
    int impls[MOST];
    if (!PyArg_ParseTuple(args, "siiOOO", &name, &where.device_type, &where.device_id, &types,
                          &shapes, &options))
        return NULL;
    where.stream = NULL;
    where.is_external = where.device_type == TG_DEVICE_ASCEND;
    question *q = ask(name, &where, shapes, types, options);
    tg_ctx *ctx = q && put_outputs(q, tg_type_of(&q->c.views[0])) == 0 ? context_for(&where) : NULL;
    const int count = ctx ? tg_resolve(ctx, q->op.id, impls, MOST) : 0;
    int takes = 0;
    for (int i = 0; !takes && i < count && i < MOST; i++)
        takes = tg_impl_accepts(ctx, impls[i], q->c.slots);
    free(q);
    return ctx ? PyBool_FromLong(takes) : NULL;
}
