/* toy_reference.c - its operators: the device's thread runs the library's reference, which takes
 * what it sees for memory of the host. Indices lie in device memory: no check has seen them. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "toy.h"

static tg_ctx *host_context(void)
{
    static tg_ctx *ctx; /* of the device's thread */
    if (!ctx && (tg_ctx_create(&ctx) != TG_OK || tg_ctx_set_device(ctx, "cpu") != TG_OK))
        ctx = NULL;
    return ctx;
}

/* Options are resolved, and a call takes zero for the default, which only stays where that follows
 * from the tensors. */
static void unresolve(toy_call *call, const tg_op_info *op)
{
    const double zero = TG_ZERO;
    for (int i = 0; i < op->nargs; i++)
        if (op->args[i].kind > TG_ARG_OUT_OPT && !op->args[i].default_text && !call->slot[i]) {
            if (op->args[i].kind == TG_ARG_F64)
                memcpy(&call->slot[i], &zero, sizeof zero);
            else
                call->slot[i] = (uint64_t)TG_ZERO;
        }
}

static void by_reference(toy_call *call)
{
    char name[64];
    tg_ctx *ctx = host_context();
    snprintf(name, sizeof name, "ref/%s", call->op);
    for (int i = 0; i < TOY_TENSORS; i++)
        call->tensor[i].device.device_type = TG_DEVICE_CPU;
    unresolve(call, tg_op_at(tg_op_by_name(call->op)));
    if (call->scratch)
        memset(call->scratch, 0xA5, call->bytes); /* it is the call's own */
    if (!ctx || tg_impl_run(ctx, tg_find(ctx, name), call->slot) != TG_OK)
        toy_fault(call, TG_EDEVICE, "toy: %s", tg_last_error());
}

/* ---- indices ---- */

/* A tensor of indices in [0, count), or `ignored`; stand_in takes the place of
 * those that are not. */
typedef struct index_list {
    const char *name;
    tg_tensor *t;
    int64_t count, ignored, stand_in;
} index_list;

static int is_wrong(const index_list *x, int64_t i)
{
    const int64_t index = ((const int64_t *)x->t->data)[i];
    return index != x->ignored && (index < 0 || index >= x->count);
}

/* What belongs to position i of the indices: an element of a tensor of their shape, a row of one
 * with a dimension more. */
static char *belongs(const index_list *x, const tg_tensor *t, int64_t i, size_t *bytes)
{
    const int64_t all = tg_numel(x->t);
    const tg_rows r = tg_rows_of(t);
    const size_t size = tg_type_size(r.type);
    *bytes = size * (size_t)(t->ndim == x->t->ndim ? 1 : r.n);
    if (t->ndim == x->t->ndim)
        return tg_numel(t) == all ? r.data + i * (int64_t)size : NULL;
    return r.rows == all ? r.data + i * r.stride * (int64_t)size : NULL;
}

/* Copies what belongs to wrong indices out of the outputs, or back. */
static void keep(toy_call *call, const index_list *x, char *kept, int back)
{
    const tg_op_info *op = tg_op_at(tg_op_by_name(call->op));
    for (int a = 0; a < op->nargs && op->args[a].kind <= TG_ARG_OUT_OPT; a++)
        for (int64_t i = 0; op->args[a].kind >= TG_ARG_OUT && call->slot[a] && i < tg_numel(x->t);
             i++) {
            size_t bytes;
            char *const at = is_wrong(x, i) ? belongs(x, &call->tensor[a], i, &bytes) : NULL;
            if (at) {
                memcpy(back ? at : kept, back ? kept : at, bytes);
                kept += bytes;
            }
        }
}

/* Bytes of all tensors: more than keep() needs. */
static size_t most_kept(const toy_call *call)
{
    size_t bytes = 1;
    for (int i = 0; i < TOY_TENSORS; i++)
        if (call->tensor[i].shape)
            bytes +=
                (size_t)tg_numel(&call->tensor[i]) * tg_type_size(tg_type_of(&call->tensor[i]));
    return bytes;
}

static void with_indices(toy_call *call, index_list x)
{
    const int64_t n = tg_numel(x.t);
    int64_t *given = x.t->data, wrong = 0;
    int64_t *mine = malloc((size_t)(n + 1) * sizeof *mine);
    char *kept = malloc(most_kept(call));
    for (int64_t i = 0; i < n; i++)
        if (is_wrong(&x, i) && !wrong++)
            toy_fault(call, TG_EINVAL,
                      "%s: %s[%" PRId64 "] is %" PRId64 ", out of bounds: expected in [0, %" PRId64
                      ")",
                      call->op, x.name, i, given[i], x.count);
    for (int64_t i = 0; mine && i < n; i++)
        mine[i] = is_wrong(&x, i) ? x.stand_in : given[i];
    if (mine && kept) {
        keep(call, &x, kept, 0);
        x.t->data = mine;
        by_reference(call);
        x.t->data = given;
        keep(call, &x, kept, 1);
    }
    free(mine);
    free(kept);
}

static void losses(toy_call *call)
{
    const tg_cross_entropy_forward_args *a = (const void *)call->slot;
    const int64_t classes = a->logits->shape[a->logits->ndim - 1];
    with_indices(call, (index_list){"target", (tg_tensor *)a->target,
                                    a->vocab_size ? a->vocab_size : classes, a->ignore_index,
                                    a->ignore_index});
}

static void loss_gradients(toy_call *call)
{
    const tg_cross_entropy_backward_args *a = (const void *)call->slot;
    const int64_t classes = a->logits->shape[a->logits->ndim - 1];
    with_indices(call, (index_list){"target", (tg_tensor *)a->target,
                                    a->vocab_size ? a->vocab_size : classes, a->ignore_index,
                                    a->ignore_index});
}

static void look_up(toy_call *call)
{
    const tg_embedding_forward_args *a = (const void *)call->slot;
    with_indices(call, (index_list){"indices", (tg_tensor *)a->indices, a->weight->shape[0], 0, 0});
}

/* ---- operators: those that tests of the device itself need, and with TOY_REFERENCE=1 the
 * others of a Llama ---- */

#define OPERATORS(X)                          \
    X(embedding_forward, look_up)             \
    X(embedding_backward, by_reference)       \
    X(gemm, by_reference)                     \
    X(sum_rows_forward, by_reference)         \
    X(sum_rows_backward, by_reference)        \
    X(rms_norm_forward, by_reference)         \
    X(softmax_backward, by_reference)         \
    X(sum_squares_forward, by_reference)      \
    X(sum_squares_backward, by_reference)     \
    X(cross_entropy_forward, losses)          \
    X(cross_entropy_backward, loss_gradients) \
    X(softmax_jsd_forward, by_reference)      \
    X(softmax_jsd_backward, by_reference)

#define OF_A_LLAMA(X)                            \
    X(rope_forward, by_reference)                \
    X(rope_backward, by_reference)               \
    X(swiglu_forward, by_reference)              \
    X(swiglu_backward, by_reference)             \
    X(flash_attention_forward, by_reference)     \
    X(flash_attention_backward, by_reference)    \
    X(fused_add_rms_norm_forward, by_reference)  \
    X(fused_add_rms_norm_backward, by_reference) \
    X(adamw, by_reference)

#define FUNCTION(op, kernel) TOY_FUNCTION(op, kernel, 0)
OPERATORS(FUNCTION)
OF_A_LLAMA(FUNCTION)
/* One that takes memory of the workspace. */
TOY_FUNCTION(rms_norm_backward, by_reference,
             args->dweight ? (size_t)tg_numel(args->dweight) * sizeof(double) : 0)
/* The only one that promises that rows do not know their batch. */
FUNCTION(softmax_forward, by_reference)

#define IMPL(op, kernel) TG_IMPL(op, "", 0, TG_TAKES_FLOATS, NULL, toy_##op),
const tg_impl toy_impls[] = {
    OPERATORS(IMPL) IMPL(rms_norm_backward, ) TG_IMPL(
        softmax_forward, "", 0, TG_TAKES_FLOATS | TG_BATCH_INVARIANT, NULL, toy_softmax_forward),
    TG_IMPLS_END};
const tg_impl toy_llama_impls[] = {OF_A_LLAMA(IMPL) TG_IMPLS_END};
