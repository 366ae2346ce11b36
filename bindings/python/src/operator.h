/* operator.h - an operator as a function of Python, and a call of it under way. */
#ifndef TIGON_PYTHON_OPERATOR_H
#define TIGON_PYTHON_OPERATOR_H

#include "binding.h"

typedef struct operator
{
    int id;
    const tg_op_info *info;
    int inputs;               /* how many may be given by position: */
    uint8_t input[MOST_ARGS]; /* their slots */
    PyObject *names[MOST_ARGS];
    PyMethodDef method;
}
operator;

/* A call under way. Arguments are borrowed from the caller but for outputs that were made here. */
typedef struct call {
    const operator* op;
    PyObject *given[MOST_ARGS]; /* NULL: not given, or None */
    PyObject *impl;
    PyObject *made; /* tuple of outputs that were allocated, or NULL */
    tg_tensor views[MOST_ARGS];
    PyObject *owners[MOST_ARGS];
    uint64_t slots[MOST_ARGS];
    place where;
} call;

static inline int is_option(const tg_arg_info *arg)
{
    return arg->kind == TG_ARG_F64 || arg->kind == TG_ARG_I64;
}

static inline int is_output(const tg_arg_info *arg)
{
    return arg->kind == TG_ARG_OUT || arg->kind == TG_ARG_OUT_OPT;
}

/* ---- arguments.c ---- */

/* Before the first call. */
int arguments_open(void);
/* The call's arguments: which is which, options, tensors; outputs that it asks for are made. -1
 * with a Python exception. */
int take_arguments(call *c, PyObject *const *args, Py_ssize_t nargs, PyObject *keywords);
/* The shape of an output as a tuple. NULL with a Python exception. */
PyObject *shape_of(const call *c, int i);

#endif
