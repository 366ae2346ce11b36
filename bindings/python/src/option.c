/* The values of options: numbers, and names that stand for one. */
#include <string.h>

#include "binding.h"

static int wrong_option(const char *op, const tg_arg_info *arg, PyObject *value)
{
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "%s: %s is %R, expected %s", op, arg->name, value,
                 arg->kind == TG_ARG_F64 ? "a number" : "an integer of 64 bits");
    return -1;
}

/* A value by its name, such as reduction="sum". */
static int choose(const char *op, const tg_arg_info *arg, PyObject *value, int64_t *out)
{
    for (const tg_choice *choice = arg->choices; choice->name; choice++)
        if (PyUnicode_CompareWithASCIIString(value, choice->name) == 0) {
            *out = choice->value;
            return 0;
        }
    PyObject *names = PyUnicode_FromString(arg->choices->name);
    for (const tg_choice *choice = arg->choices + 1; names && choice->name; choice++) {
        PyObject *more = PyUnicode_FromFormat("%U, %s", names, choice->name);
        Py_DECREF(names);
        names = more;
    }
    if (names)
        PyErr_Format(PyExc_ValueError, "%s: %s is %R, expected one of %U", op, arg->name, value,
                     names);
    Py_XDECREF(names);
    return -1;
}

static int take_integer(const char *op, const tg_arg_info *arg, PyObject *value, uint64_t *slot)
{
    int64_t v;
    if (arg->choices && PyUnicode_Check(value)) {
        if (choose(op, arg, value, &v) != 0)
            return -1;
    } else {
        PyObject *index = PyNumber_Index(value);
        v = index ? PyLong_AsLongLong(index) : -1;
        Py_XDECREF(index);
        if (v == TG_ZERO || (v == -1 && PyErr_Occurred()))
            return wrong_option(op, arg, value);
    }
    v = TG_VALUE(v);
    memcpy(slot, &v, sizeof v);
    return 0;
}

static int take_number(const char *op, const tg_arg_info *arg, PyObject *value, uint64_t *slot)
{
    double v = PyFloat_AsDouble(value);
    if (v == (double)TG_ZERO || (v == -1 && PyErr_Occurred()))
        return wrong_option(op, arg, value);
    v = TG_VALUE(v);
    memcpy(slot, &v, sizeof v);
    return 0;
}

int option_of(const char *op, const tg_arg_info *arg, PyObject *value, uint64_t *slot)
{
    return (arg->kind == TG_ARG_I64 ? take_integer : take_number)(op, arg, value, slot);
}
