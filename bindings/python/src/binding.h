/* What the files of the extension tigon._core share. It is written against CPython's limited API of
 * 3.9, so that one binary serves that version and every later one. */
#ifndef TIGON_PYTHON_BINDING_H
#define TIGON_PYTHON_BINDING_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03090000
#include <Python.h>
/* Part of the stable ABI since 3.10; 3.9 has the same calling convention under the same number. */
#ifndef METH_FASTCALL
#define METH_FASTCALL 0x0080
#endif

#include <tigon/tigon.h>

#include "exchange.h"

enum { MOST_ARGS = 32 };

/* Where the tensors of a call lie, and the stream that their framework works on there. */
typedef struct place {
    int device_type; /* 0: no tensor yet */
    int device_id;
    int is_external; /* what DLPack calls so: the framework has told the stream itself */
    void *stream;
} place;

/* What a tensor argument is called in messages: "rms_norm_forward: x". */
typedef struct argument {
    const char *op;
    const char *name;
    int writes;
} argument;

/* ---- module.c ---- */

/* Raises what tg_last_error() says, as the exception that fits the status. Returns NULL. */
PyObject *raise_status(tg_status status);

/* ---- capsule.c ---- */

int capsules_open(void);
/* The capsule that the object's __dlpack__() returns, asked for the newest version that both sides
 * know. A new reference; NULL with a Python exception. */
PyObject *capsule_of(const argument *arg, PyObject *object);
/* A capsule that is not marked as used frees its tensor when it goes: it is the owner of the view.
 * -1 with a Python exception. */
int view_of_capsule(const argument *arg, PyObject *capsule, tg_tensor *view);
/* Raises that the argument is an output that cannot be written, and why. Returns -1. */
int refuse_to_write(const argument *arg, const char *why);

/* ---- tensor.c ---- */

/* The exception that is set, with operator and argument in front of its words, which are the
 * framework's own. Returns -1. */
int explain(const argument *arg);

/* Sets stream(tensor, wanted) -> address, which is asked of every tensor on an external device and
 * refuses those that are none of an NPU, and device(number), a context manager that makes a card
 * current. */
PyObject *tensors_set_external(PyObject *module, PyObject *args);
/* device(number), which has to be entered and left; NULL with a Python exception. */
PyObject *external_device(int device_id);
/* Fills in a view of the object's memory. *owner becomes an object that must live as long as the
 * view is used, or stays NULL. The first tensor in a device's memory decides `where`. -1 with a
 * Python exception. */
int tensor_of(const argument *arg, PyObject *object, tg_tensor *view, PyObject **owner,
              place *where);

/* Whether the last error is that this argument's columns are contiguous and not its rows; then it
 * is a Python exception, which says what to do as well. */
int refused_for_columns(const argument *arg, const tg_tensor *view);

/* ---- option.c ---- */

/* Writes an option's value into its slot. -1 with a Python exception. */
int option_of(const char *op, const tg_arg_info *arg, PyObject *value, uint64_t *slot);

/* ---- context.c ---- */

int contexts_open(void);
/* The context for calls on tensors that lie there: in host memory the calling thread's own,
 * elsewhere one for each stream, which is used with the GIL held. NULL with a Python exception. */
tg_ctx *context_for(const place *where);
/* The context of this thread's last call, NULL before the first. */
tg_ctx *context_of_last_call(void);
/* Sets allocate(bytes, card, stream) -> address and free(address) of a framework, for the workspace
 * of contexts that are made from now on for a device: set_device_allocator("cuda", allocate, free).
 */
PyObject *contexts_set_allocator(PyObject *module, PyObject *args);
/* Of all contexts, those to come too. */
PyObject *contexts_set_batch_invariant(PyObject *module, PyObject *on);
/* Waits for all devices. */
tg_status contexts_sync(void);
/* Ends the contexts of devices, or those of one stream, release([stream]) -> how many: their work
 * has ended then and their memory is given back. The next call there makes a new one. */
PyObject *contexts_release(PyObject *module, PyObject *args);

/* ---- operator.c ---- */

/* The functions of all operators, a dict by name. */
PyObject *operators_new(PyObject *module);

/* ---- question.c ---- */

/* The shapes of outputs, where tensors are told by their shapes. */
PyObject *operators_output_shapes(PyObject *module, PyObject *args);
/* Does an implementation take tensors of such types and shapes on a device? */
PyObject *operators_takes(PyObject *module, PyObject *args);

/* ---- arguments.c ---- */

/* Sets the function that makes outputs: allocate(operator, tensors by name, shapes of outputs
 * by name) -> tuple. */
PyObject *operators_set_allocator(PyObject *module, PyObject *allocate);

#endif
