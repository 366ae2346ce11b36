/* arguments.c - the arguments of a call: which is which, options, tensors, and outputs that are
 * made since the call gives none. */
#include <string.h>

#include "operator.h"

static PyObject *allocator, *impl_name;

int arguments_open(void)
{
    impl_name = PyUnicode_InternFromString("impl");
    return impl_name ? 0 : -1;
}

PyObject *operators_set_allocator(PyObject *module, PyObject *allocate)
{
    (void)module;
    PyObject *before = allocator;
    Py_INCREF(allocate);
    allocator = allocate;
    Py_XDECREF(before);
    Py_RETURN_NONE;
}

/* ---- which argument is which ---- */

/* The slot of a keyword, -1 if there is none, -2 for `impl`. Names in calls are interned, and so
 * comparing pointers mostly does. */
static int slot_of(const operator* op, PyObject *name)
{
    const int n = op->info->nargs;
    for (int i = 0; i < n; i++)
        if (op->names[i] == name)
            return i;
    if (name == impl_name)
        return -2;
    for (int i = 0; i < n; i++)
        if (PyUnicode_Compare(op->names[i], name) == 0)
            return i;
    return PyUnicode_Compare(impl_name, name) == 0 ? -2 : -1;
}

static int take_keyword(call *c, PyObject *name, PyObject *value)
{
    const int slot = slot_of(c->op, name);
    if (slot == -1) {
        PyErr_Format(PyExc_TypeError, "%s: there is no argument %R", c->op->info->name, name);
        return -1;
    }
    PyObject **const at = slot == -2 ? &c->impl : &c->given[slot];
    if (*at) {
        PyErr_Format(PyExc_TypeError, "%s: %U is given twice", c->op->info->name, name);
        return -1;
    }
    const int none =
        value == Py_None || (value == Py_False && slot >= 0 && is_output(&c->op->info->args[slot]));
    *at = none ? NULL : value;
    return 0;
}

static int take_names(call *c, PyObject *const *args, Py_ssize_t nargs, PyObject *keywords)
{
    const operator* op = c->op;
    const Py_ssize_t n = keywords ? PyTuple_Size(keywords) : 0;
    if (nargs > op->inputs) {
        PyErr_Format(PyExc_TypeError,
                     "%s: %zd arguments by position, expected at most %d; outputs and options are "
                     "given by name",
                     op->info->name, nargs, op->inputs);
        return -1;
    }
    for (Py_ssize_t i = 0; i < nargs; i++)
        if (args[i] != Py_None)
            c->given[op->input[i]] = args[i];
    for (Py_ssize_t i = 0; i < n; i++)
        if (take_keyword(c, PyTuple_GetItem(keywords, i), args[nargs + i]) != 0)
            return -1;
    return 0;
}

/* ---- options and tensors ---- */

/* In Python zero is zero, and what is not given is the default. */
static int take_option(call *c, int i)
{
    const tg_arg_info *arg = &c->op->info->args[i];
    PyObject *value = c->given[i];
    return value ? option_of(c->op->info->name, arg, value, &c->slots[i]) : 0;
}

/* An output goes with an optional input whose buffer it may share: yk with k, dup with up. */
static int goes_with_what_is_given(const call *c, const tg_arg_info *output)
{
    for (int k = 0; output->over && k < c->op->info->nargs; k++) {
        const tg_arg_info *arg = &c->op->info->args[k];
        if (arg->kind == TG_ARG_OPT && !strcmp(arg->name, output->over))
            return c->given[k] != NULL;
    }
    return 0;
}

/* Outputs that shall be made: required ones that were not given, those that go with an optional
 * input that was, and optional ones given as True. */
static int is_asked(const call *c, int i)
{
    const tg_arg_info *arg = &c->op->info->args[i];
    return is_output(arg) &&
           (c->given[i] == Py_True ||
            (!c->given[i] && (arg->kind == TG_ARG_OUT || goes_with_what_is_given(c, arg))));
}

static PyObject *tensors_as_dict(const call *c)
{
    PyObject *dict = PyDict_New();
    for (int i = 0; dict && i < c->op->info->nargs; i++)
        if (c->given[i] && !is_option(&c->op->info->args[i]) && !is_asked(c, i) &&
            PyDict_SetItem(dict, c->op->names[i], c->given[i]) != 0)
            Py_CLEAR(dict);
    return dict;
}

PyObject *shape_of(const call *c, int i)
{
    int64_t shape[TG_MAX_NDIM];
    int ndim;
    if (tg_output_shape(c->op->id, c->slots, i, shape, &ndim) != TG_OK) {
        PyErr_Format(PyExc_ValueError, "%s; give a tensor to write to", tg_last_error());
        return NULL;
    }
    PyObject *tuple = PyTuple_New(ndim);
    for (int k = 0; tuple && k < ndim; k++) {
        PyObject *size = PyLong_FromLongLong(shape[k]);
        if (!size || PyTuple_SetItem(tuple, k, size) != 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

/* The shapes of outputs by their names: of those that are asked for. */
static PyObject *shapes_of_asked(const call *c)
{
    PyObject *dict = PyDict_New();
    for (int i = 0; dict && i < c->op->info->nargs; i++) {
        PyObject *shape = is_asked(c, i) ? shape_of(c, i) : NULL;
        if (is_asked(c, i) && (!shape || PyDict_SetItem(dict, c->op->names[i], shape) != 0))
            Py_CLEAR(dict);
        Py_XDECREF(shape);
    }
    return dict;
}

static int make_outputs(call *c)
{
    PyObject *wanted = shapes_of_asked(c);
    PyObject *tensors = wanted ? tensors_as_dict(c) : NULL;
    if (tensors && !allocator)
        PyErr_SetString(PyExc_RuntimeError, "tigon: no allocator is set");
    else if (tensors)
        c->made = PyObject_CallFunction(allocator, "sOO", c->op->info->name, tensors, wanted);
    Py_XDECREF(wanted);
    Py_XDECREF(tensors);
    if (!c->made)
        return -1;
    for (int i = 0, k = 0; i < c->op->info->nargs; i++)
        if (is_asked(c, i) && !(c->given[i] = PyTuple_GetItem(c->made, k++)))
            return -1; /* (what was made is no longer asked for) */
    return 0;
}

/* `made`: for this call, so that it may be written whatever it says of itself. */
static int take_tensor(call *c, int i, int made)
{
    const tg_arg_info *arg = &c->op->info->args[i];
    const argument who = {c->op->info->name, arg->name, is_output(arg) && !made};
    if (tensor_of(&who, c->given[i], &c->views[i], &c->owners[i], &c->where) != 0)
        return -1;
    const tg_tensor *view = &c->views[i];
    memcpy(&c->slots[i], &view, sizeof view);
    return 0;
}

static int missing(const call *c, const tg_arg_info *arg)
{
    PyErr_Format(PyExc_TypeError, "%s: %s is missing", c->op->info->name, arg->name);
    return -1;
}

/* First what was given, so that what is not a tensor is told before outputs are made after it. */
static int take_tensors(call *c)
{
    uint64_t asked = 0;
    for (int i = 0; i < c->op->info->nargs; i++) {
        const tg_arg_info *arg = &c->op->info->args[i];
        if (arg->kind == TG_ARG_IN && !c->given[i])
            return missing(c, arg);
        if (is_asked(c, i))
            asked |= (uint64_t)1 << i;
        else if (c->given[i] && !is_option(arg) && take_tensor(c, i, 0) != 0)
            return -1;
    }
    if (asked && make_outputs(c) != 0)
        return -1;
    for (int i = 0; asked >> i; i++)
        if (asked >> i & 1 && take_tensor(c, i, 1) != 0)
            return -1;
    return 0;
}

int take_arguments(call *c, PyObject *const *args, Py_ssize_t nargs, PyObject *keywords)
{
    if (take_names(c, args, nargs, keywords) != 0)
        return -1;
    for (int i = 0; i < c->op->info->nargs; i++)
        if (is_option(&c->op->info->args[i]) && take_option(c, i) != 0)
            return -1;
    return take_tensors(c);
}
