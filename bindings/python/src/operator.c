/* operator.c - operators as Python functions: op(inputs..., *, outputs, options, impl). What their
 * arguments are is read from the schema. */
#include <stdlib.h>
#include <string.h>

#include "operator.h"

/* ---- the call ---- */

/* `impl` is a backend, "ref", or the full name of an implementation, "cpu/rms_norm_forward.v3". */
static tg_status run_impl(tg_ctx *ctx, const call *c, const char *impl)
{
    char name[128];
    const char *slash = strchr(impl, '/') ? "" : "/";
    PyOS_snprintf(name, sizeof name, "%s%s%s", impl, slash, *slash ? c->op->info->name : "");
    const int found = tg_find(ctx, name);
    const tg_impl_info *info = tg_impl_at(found);
    if (found < 0 || info->op != c->op->id) {
        PyErr_Format(PyExc_LookupError, "%s: there is no implementation %s", c->op->info->name,
                     name);
        return TG_ENOTFOUND;
    }
    return tg_impl_run(ctx, found, c->slots);
}

static int run(call *c)
{
    tg_ctx *ctx = context_for(&c->where);
    if (!ctx)
        return -1;
    tg_status status;
    if (c->impl) {
        PyObject *name = PyUnicode_Check(c->impl) ? PyUnicode_AsUTF8String(c->impl) : NULL;
        if (!name) {
            if (!PyErr_Occurred())
                PyErr_Format(PyExc_TypeError, "%s: impl is %R, expected a name", c->op->info->name,
                             c->impl);
            return -1;
        }
        status = run_impl(ctx, c, PyBytes_AsString(name));
        Py_DECREF(name);
    } else if (c->where.device_type == TG_DEVICE_CPU) {
        PyThreadState *state = PyEval_SaveThread();
        status = tg_call(ctx, c->op->id, c->slots);
        PyEval_RestoreThread(state);
    } else {
        status = tg_call(ctx, c->op->id, c->slots);
    }
    for (int i = 0; status == TG_EINVAL && i < c->op->info->nargs; i++)
        if (c->given[i] && !is_option(&c->op->info->args[i]) &&
            refused_for_columns(&(argument){.name = c->op->info->args[i].name,
                                            .writes = is_output(&c->op->info->args[i])},
                                &c->views[i]))
            return -1;
    if (status != TG_OK && !PyErr_Occurred())
        raise_status(status);
    return status == TG_OK ? 0 : -1;
}

/* All outputs that were computed: one alone, or a tuple of several. */
static PyObject *results(const call *c)
{
    int count = 0, only = 0;
    for (int i = 0; i < c->op->info->nargs; i++)
        if (c->given[i] && is_output(&c->op->info->args[i])) {
            only = i;
            count++;
        }
    if (count == 1) {
        Py_INCREF(c->given[only]);
        return c->given[only];
    }
    PyObject *tuple = PyTuple_New(count);
    for (int i = 0, k = 0; tuple && i < c->op->info->nargs; i++)
        if (c->given[i] && is_output(&c->op->info->args[i])) {
            Py_INCREF(c->given[i]);
            PyTuple_SetItem(tuple, k++, c->given[i]);
        }
    return tuple;
}

static PyObject *call_operator(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                               PyObject *keywords)
{
    call c;
    PyObject *result = NULL;
    c.op = PyCapsule_GetPointer(self, NULL);
    const int n = c.op->info->nargs;
    memset(c.given, 0, (size_t)n * sizeof *c.given);
    memset(c.owners, 0, (size_t)n * sizeof *c.owners);
    memset(c.slots, 0, (size_t)n * sizeof *c.slots);
    c.impl = c.made = NULL;
    c.where = (place){0};
    if (take_arguments(&c, args, nargs, keywords) == 0 && run(&c) == 0)
        result = results(&c);
    for (int i = 0; i < n; i++)
        Py_XDECREF(c.owners[i]);
    Py_XDECREF(c.made);
    return result;
}

/* ---- all of them ---- */

static const struct {
    const char *name;
    const char *text;
} documentation[] = {
#include "documentation.inc"
};

static const char *documentation_of(const char *name)
{
    for (size_t i = 0; i < sizeof documentation / sizeof *documentation; i++)
        if (strcmp(documentation[i].name, name) == 0)
            return documentation[i].text;
    return NULL;
}

/* Operators live as long as the process, as the library does. */
static operator* describe(int id)
{
    const tg_op_info *info = tg_op_at(id);
    operator* op = info->nargs <= MOST_ARGS ? calloc(1, sizeof *op) : NULL;
    if (!op)
        return (operator*)PyErr_NoMemory();
    op->id = id;
    op->info = info;
    for (int i = 0; i < info->nargs; i++) {
        op->names[i] = PyUnicode_InternFromString(info->args[i].name);
        if (!op->names[i])
            return NULL;
        if (info->args[i].kind == TG_ARG_IN || info->args[i].kind == TG_ARG_OPT)
            op->input[op->inputs++] = (uint8_t)i;
    }
    op->method = (PyMethodDef){info->name, (PyCFunction)(void (*)(void))call_operator,
                               METH_FASTCALL | METH_KEYWORDS, documentation_of(info->name)};
    return op;
}

static int add_operator(PyObject *dict, PyObject *module_name, int id)
{
    operator* op = describe(id);
    PyObject *capsule = op ? PyCapsule_New(op, NULL, NULL) : NULL;
    PyObject *function = capsule ? PyCFunction_NewEx(&op->method, capsule, module_name) : NULL;
    const int status = function ? PyDict_SetItemString(dict, op->info->name, function) : -1;
    Py_XDECREF(capsule);
    Py_XDECREF(function);
    return status;
}

PyObject *operators_new(PyObject *module)
{
    (void)module;
    PyObject *module_name = PyUnicode_FromString("tigon.ops");
    PyObject *dict = module_name && arguments_open() == 0 ? PyDict_New() : NULL;
    for (int id = 0; dict && id < tg_op_count(); id++)
        if (add_operator(dict, module_name, id) != 0)
            Py_CLEAR(dict);
    Py_XDECREF(module_name);
    return dict;
}
