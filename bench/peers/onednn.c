/* oneDNN's own layer normalisation and softmax behind three plain functions, for onednn.py.
 *
 * API of oneDNN 2.x. Buffers are given at each run, in the order of the primitive's
 * row in the table below.
 */
#include <oneapi/dnnl/dnnl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ARGS = 9, LAYER_FLAGS = dnnl_use_scale | dnnl_use_shift };

typedef struct description {
    const char *name;
    int backward, layer;
    int nargs, args[MAX_ARGS];
} description;

static const description descriptions[] = {
    {"softmax_forward", 0, 0, 2, {DNNL_ARG_SRC, DNNL_ARG_DST}},
    {"softmax_backward", 1, 0, 3, {DNNL_ARG_DIFF_DST, DNNL_ARG_DST, DNNL_ARG_DIFF_SRC}},
    {"layer_norm_forward",
     0,
     1,
     6,
     {DNNL_ARG_SRC, DNNL_ARG_SCALE, DNNL_ARG_SHIFT, DNNL_ARG_DST, DNNL_ARG_MEAN,
      DNNL_ARG_VARIANCE}},
    {"layer_norm_backward",
     1,
     1,
     9,
     {DNNL_ARG_DIFF_DST, DNNL_ARG_SRC, DNNL_ARG_SCALE, DNNL_ARG_SHIFT, DNNL_ARG_MEAN,
      DNNL_ARG_VARIANCE, DNNL_ARG_DIFF_SRC, DNNL_ARG_DIFF_SCALE, DNNL_ARG_DIFF_SHIFT}},
};

typedef struct primitive {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t handle;
    int nargs;
    dnnl_exec_arg_t args[MAX_ARGS];
} primitive;

/* The primitive descriptor of forward or, given forward's, of backward. */
static dnnl_status_t describe(dnnl_primitive_desc_t *out, const description *d, int backward,
                              const dnnl_memory_desc_t *data, const dnnl_memory_desc_t *stat,
                              float eps, dnnl_engine_t engine, const_dnnl_primitive_desc_t hint)
{
    dnnl_layer_normalization_desc_t layer;
    dnnl_softmax_desc_t softmax;
    dnnl_status_t status;
    if (d->layer && backward)
        status = dnnl_layer_normalization_backward_desc_init(&layer, dnnl_backward, data, data,
                                                             stat, eps, LAYER_FLAGS);
    else if (d->layer)
        status = dnnl_layer_normalization_forward_desc_init(&layer, dnnl_forward_training, data,
                                                            stat, eps, LAYER_FLAGS);
    else if (backward)
        status = dnnl_softmax_backward_desc_init(&softmax, data, data, 1);
    else
        status = dnnl_softmax_forward_desc_init(&softmax, dnnl_forward_training, data, 1);
    if (status != dnnl_success)
        return status;
    const void *op = d->layer ? (const void *)&layer : (const void *)&softmax;
    return dnnl_primitive_desc_create(out, op, NULL, engine, hint);
}

void peers_onednn_destroy(primitive *p);

static dnnl_status_t build(primitive *p, const description *d, int64_t rows, int64_t n, int bf16,
                           float eps)
{
    const dnnl_dims_t dims = {rows, n};
    dnnl_memory_desc_t data, stat;
    dnnl_primitive_desc_t forward = NULL, backward = NULL;
    dnnl_status_t status = dnnl_engine_create(&p->engine, dnnl_cpu, 0);
    if (status == dnnl_success)
        status = dnnl_stream_create(&p->stream, p->engine, dnnl_stream_default_flags);
    if (status == dnnl_success)
        status = dnnl_memory_desc_init_by_tag(&data, 2, dims, bf16 ? dnnl_bf16 : dnnl_f32, dnnl_ab);
    if (status == dnnl_success)
        status = dnnl_memory_desc_init_by_tag(&stat, 1, dims, dnnl_f32, dnnl_a);
    if (status == dnnl_success)
        status = describe(&forward, d, 0, &data, &stat, eps, p->engine, NULL);
    if (status == dnnl_success && d->backward)
        status = describe(&backward, d, 1, &data, &stat, eps, p->engine, forward);
    const_dnnl_primitive_desc_t used = d->backward ? backward : forward;
    if (status == dnnl_success)
        status = dnnl_primitive_create(&p->handle, used);
    for (; status == dnnl_success && p->nargs < d->nargs; p->nargs++) {
        dnnl_exec_arg_t *arg = &p->args[p->nargs];
        arg->arg = d->args[p->nargs];
        status = dnnl_memory_create(
            &arg->memory, dnnl_primitive_desc_query_md(used, dnnl_query_exec_arg_md, arg->arg),
            p->engine, DNNL_MEMORY_NONE);
    }
    dnnl_primitive_desc_destroy(backward);
    dnnl_primitive_desc_destroy(forward);
    return status;
}

/* NULL if this oneDNN has no such primitive, or not for this type and processor. */
primitive *peers_onednn_create(const char *name, int64_t rows, int64_t n, int bf16, float eps)
{
    const size_t count = sizeof descriptions / sizeof descriptions[0];
    for (size_t i = 0; i < count; i++) {
        if (strcmp(descriptions[i].name, name) != 0)
            continue;
        primitive *p = calloc(1, sizeof *p);
        if (p && build(p, &descriptions[i], rows, n, bf16, eps) == dnnl_success)
            return p;
        peers_onednn_destroy(p);
    }
    return NULL;
}

/* Runs it on `buffers`, in the table's order; returns 0, or oneDNN's error. */
int peers_onednn_run(primitive *p, void *const *buffers)
{
    for (int i = 0; i < p->nargs; i++)
        dnnl_memory_set_data_handle(p->args[i].memory, buffers[i]);
    const dnnl_status_t status = dnnl_primitive_execute(p->handle, p->stream, p->nargs, p->args);
    return status != dnnl_success ? (int)status : (int)dnnl_stream_wait(p->stream);
}

void peers_onednn_destroy(primitive *p)
{
    if (!p)
        return;
    for (int i = 0; i < p->nargs; i++)
        dnnl_memory_destroy(p->args[i].memory);
    dnnl_primitive_destroy(p->handle);
    dnnl_stream_destroy(p->stream);
    dnnl_engine_destroy(p->engine);
    free(p);
}
