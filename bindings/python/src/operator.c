/* An operator as a Python function: op(inputs..., *, outputs, options, impl). What its arguments
 * are is read from the schema. */
#include <stdlib.h>
#include <string.h>

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

static PyObject *allocator, *impl_name;

static int is_option(const tg_arg_info *arg)
{
    return arg->kind == TG_ARG_F64 || arg->kind == TG_ARG_I64;
}

static int is_output(const tg_arg_info *arg)
{
    return arg->kind == TG_ARG_OUT || arg->kind == TG_ARG_OUT_OPT;
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

static int take_arguments(call *c, PyObject *const *args, Py_ssize_t nargs, PyObject *keywords)
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

/* The shape of an output as a tuple. NULL with a Python exception. */
static PyObject *shape_of(const call *c, int i)
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
    int wrong = take_arguments(&c, args, nargs, keywords) != 0;
    for (int i = 0; !wrong && i < n; i++)
        wrong = is_option(&c.op->info->args[i]) && take_option(&c, i) != 0;
    if (!wrong && take_tensors(&c) == 0 && run(&c) == 0)
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

/* A tensor of that shape, without data, and its sizes. */
static int take_shape(call *c, int i, PyObject *shape, int64_t *sizes)
{
    const Py_ssize_t ndim = PyTuple_Check(shape) ? PyTuple_Size(shape) : TG_MAX_NDIM + 1;
    if (ndim > TG_MAX_NDIM) {
        PyErr_Format(PyExc_ValueError, "%s: %s has more than %d dimensions", c->op->info->name,
                     c->op->info->args[i].name, TG_MAX_NDIM);
        return -1;
    }
    for (Py_ssize_t k = 0; k < ndim; k++)
        sizes[k] = PyLong_AsLongLong(PyTuple_GetItem(shape, k));
    c->views[i] = tg_tensor_of(NULL, TG_F32, (int)ndim, sizes);
    const tg_tensor *view = &c->views[i];
    memcpy(&c->slots[i], &view, sizeof view);
    return PyErr_Occurred() ? -1 : 0;
}

/* output_shapes(operator, shapes by name, options by name, names of outputs) -> shapes by name */
PyObject *operators_output_shapes(PyObject *module, PyObject *args)
{
    (void)module;
    const char *name;
    PyObject *shapes, *options, *names;
    if (!PyArg_ParseTuple(args, "sOOO", &name, &shapes, &options, &names))
        return NULL;
    const int id = tg_op_by_name(name);
    if (id < 0)
        return PyErr_Format(PyExc_LookupError, "there is no operator %s", name);
    int64_t sizes[MOST_ARGS][TG_MAX_NDIM];
    operator op = {.id = id, .info = tg_op_at(id)};
    call c = {.op = &op};
    PyObject *made = PyDict_New();
    int wrong = !made;
    for (int i = 0; !wrong && i < op.info->nargs; i++) {
        const tg_arg_info *arg = &op.info->args[i];
        PyObject *value = PyMapping_GetItemString(is_option(arg) ? options : shapes, arg->name);
        PyErr_Clear(); /* (it is not given) */
        if (value && value != Py_None)
            wrong = is_option(arg) ? option_of(name, arg, value, &c.slots[i]) != 0
                                   : take_shape(&c, i, value, sizes[i]) != 0;
        Py_XDECREF(value);
    }
    for (int i = 0; !wrong && i < op.info->nargs; i++) {
        PyObject *key = PyUnicode_FromString(op.info->args[i].name);
        PyObject *shape = NULL;
        if (key && PySequence_Contains(names, key) == 1)
            wrong = !(shape = shape_of(&c, i)) || PyDict_SetItem(made, key, shape) != 0;
        Py_XDECREF(key);
        Py_XDECREF(shape);
    }
    if (wrong)
        Py_CLEAR(made);
    return made;
}

PyObject *operators_new(PyObject *module)
{
    (void)module;
    PyObject *module_name = PyUnicode_FromString("tigon.ops");
    PyObject *dict = module_name ? PyDict_New() : NULL;
    impl_name = PyUnicode_InternFromString("impl");
    for (int id = 0; dict && id < tg_op_count(); id++)
        if (add_operator(dict, module_name, id) != 0)
            Py_CLEAR(dict);
    Py_XDECREF(module_name);
    return dict;
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
