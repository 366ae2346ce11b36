/* The extension tigon._core: the operators as functions, and what Python asks of
 * the library besides. */
#include "binding.h"

PyObject *raise_status(tg_status status)
{
    const struct {
        tg_status status;
        PyObject *type;
    } types[] = {{TG_EINVAL, PyExc_ValueError},
                 {TG_EUNSUPPORTED, PyExc_NotImplementedError},
                 {TG_ENOMEM, PyExc_MemoryError},
                 {TG_ENOTFOUND, PyExc_LookupError}};
    PyObject *type = PyExc_RuntimeError;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].status == status)
            type = types[i].type;
    PyErr_SetString(type, tg_last_error());
    return NULL;
}

static PyObject *last_impl(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    tg_ctx *ctx = context_of_last_call();
    return PyUnicode_FromString(ctx ? tg_ctx_last_impl(ctx) : "");
}

static PyObject *wait_for_devices(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    const tg_status status = contexts_sync();
    if (status != TG_OK)
        return raise_status(status);
    Py_RETURN_NONE;
}

static PyObject *workspace_peak(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    tg_ctx *ctx = context_of_last_call();
    return PyLong_FromSize_t(ctx ? tg_ctx_workspace_peak(ctx) : 0);
}

static PyObject *workspace_trim(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    tg_ctx *ctx = context_of_last_call();
    if (ctx) {
        tg_ctx_workspace_trim(ctx);
        tg_ctx_workspace_reset_peak(ctx);
    }
    Py_RETURN_NONE;
}

static PyObject *cpu_level(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    return PyUnicode_FromString(tg_cpu_level());
}

static PyObject *devices(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    const tg_probe *probes;
    const int n = tg_device_probes(&probes);
    PyObject *dict = PyDict_New();
    for (int i = 0; dict && i < n; i++) {
        PyObject *words = Py_BuildValue("(is)", probes[i].count,
                                        probes[i].count ? probes[i].name : probes[i].why);
        if (!words || PyDict_SetItemString(dict, probes[i].device, words) != 0)
            Py_CLEAR(dict);
        Py_XDECREF(words);
    }
    return dict;
}

/* The choices of an option as a dict, None for what has none. */
static PyObject *choices_of(const tg_arg_info *arg)
{
    if (!arg->choices)
        Py_RETURN_NONE;
    PyObject *dict = PyDict_New();
    for (const tg_choice *choice = arg->choices; dict && choice->name; choice++) {
        PyObject *value = PyLong_FromLongLong(choice->value);
        if (!value || PyDict_SetItemString(dict, choice->name, value) != 0)
            Py_CLEAR(dict);
        Py_XDECREF(value);
    }
    return dict;
}

/* An argument as a dict: name, kind, rule (of its type), shape, reads, over, default,
 * required, choices. */
static PyObject *describe_argument(const tg_arg_info *arg)
{
    PyObject *choices = choices_of(arg);
    if (!choices)
        return NULL;
    const int option = !arg->types;
    PyObject *value = arg->required || arg->default_text || !option
                          ? Py_BuildValue("")
                          : PyFloat_FromDouble(arg->value);
    return Py_BuildValue("{sssssssssiszsNsisN}", "name", arg->name, "kind",
                         tg_arg_kind_name(arg->kind), "rule", option ? "" : arg->types->name,
                         "shape", option ? "" : arg->shape, "reads", arg->reads, "over", arg->over,
                         "default", value, "required", arg->required, "choices", choices);
}

static PyObject *schema(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    PyObject *dict = PyDict_New();
    for (int id = 0; dict && id < tg_op_count(); id++) {
        const tg_op_info *op = tg_op_at(id);
        PyObject *list = PyList_New(0);
        for (int i = 0; list && i < op->nargs; i++) {
            PyObject *arg = describe_argument(&op->args[i]);
            if (!arg || PyList_Append(list, arg) != 0)
                Py_CLEAR(list);
            Py_XDECREF(arg);
        }
        if (!list || PyDict_SetItemString(dict, op->name, list) != 0)
            Py_CLEAR(dict);
        Py_XDECREF(list);
    }
    return dict;
}

static PyMethodDef functions[] = {
    {"last_impl", last_impl, METH_NOARGS,
     "Full name of the implementation that this thread's last call ran."},
    {"sync", wait_for_devices, METH_NOARGS,
     "Waits for the work on all devices; raises the first error that was found there, such as an "
     "index out of range."},
    {"release", contexts_release, METH_VARARGS,
     "release(stream=None)\n--\n\nWaits for the work on all devices, or on one stream (its "
     "address: stream.cuda_stream in "
     "PyTorch), and gives back what Tigon keeps there, scratch memory above all. Returns how many "
     "streams that were. To be called "
     "before a stream is destroyed, and not while a graph is used that recorded calls on it. The "
     "next call on a stream begins anew."},
    {"workspace_peak", workspace_peak, METH_NOARGS,
     "Bytes of workspace that were in use at once since the last trim, in the context of this "
     "thread's last "
     "call."},
    {"set_batch_invariant", contexts_set_batch_invariant, METH_O,
     "Whether rows do not know their batch, in all calls from now on. Returns what it was."},
    {"workspace_trim", workspace_trim, METH_NOARGS,
     "Gives back what workspace that context keeps, and begins to count its peak anew."},
    {"cpu_level", cpu_level, METH_NOARGS, "The highest level of this machine's processor."},
    {"devices", devices, METH_NOARGS,
     "Devices by name: how many there are, and the first one's name or why there is none."},
    {"schema", schema, METH_NOARGS, "Operators by name: a list of their arguments, each a dict."},
    {"output_shapes", operators_output_shapes, METH_VARARGS,
     "output_shapes(operator, shapes by name, options by name, names of outputs): shapes by name."},
    {"takes", operators_takes, METH_VARARGS,
     "takes(operator, device type, card, types by name, shapes by name, options by name): does an "
     "implementation take such a call there?"},
    {"set_allocator", operators_set_allocator, METH_O,
     "Sets the function that makes outputs which a call does not give."},
    {"set_device_allocator", contexts_set_allocator, METH_VARARGS,
     "set_device_allocator(device, allocate, free): sets allocate(bytes, card, stream) and "
     "free(address) for the workspace on a device."},
    {"set_external", tensors_set_external, METH_VARARGS,
     "set_external(stream, device): sets stream(tensor, wanted) and device(number) for what DLPack "
     "calls an external device."},
    {NULL, NULL, 0, NULL}};

static int fill(PyObject *module)
{
    if (capsules_open() != 0 || contexts_open() != 0 ||
        PyModule_AddStringConstant(module, "version", tg_version()) != 0)
        return -1;
    PyObject *operators = operators_new(module);
    if (!operators || PyModule_AddObject(module, "operators", operators) == 0)
        return operators ? 0 : -1;
    Py_DECREF(operators);
    return -1;
}

/* (One interpreter a process: the library's state and the caches here are the process's own.) */
PyMODINIT_FUNC PyInit__core(void)
{
    static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "tigon._core",
                                            .m_size = -1, .m_methods = functions};
    PyObject *module = PyModule_Create(&definition);
    if (module && fill(module) != 0)
        Py_CLEAR(module);
    return module;
}
