/* The elements of tensors that implementations see otherwise than their caller gave them: there, in
 * workspace, and back. */
#include <string.h>

#include "core/core.h"

/* A run of elements. */
typedef struct run {
    char *data;
    int type;
    int64_t stride;
} run;

#define COPY(type, to, from, stride, n) \
    for (int64_t i = 0; i < (n); i++)   \
    ((type *)(to))[i] = ((const type *)(from))[i * (stride)]

/* Of one type. */
static void copy_run(char *to, const run *from, int64_t n)
{
    switch (tg_type_size(from->type)) {
    case 1:
        COPY(uint8_t, to, from->data, from->stride, n);
        break;
    case 2:
        COPY(uint16_t, to, from->data, from->stride, n);
        break;
    case 4:
        COPY(uint32_t, to, from->data, from->stride, n);
        break;
    default:
        COPY(uint64_t, to, from->data, from->stride, n);
    }
}

static void convert_run(const run *to, const run *from, int mask, int64_t n)
{
    if (to->type == from->type && to->stride == 1) {
        copy_run(to->data, from, n);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        const double value = tg_get(from->data, from->type, i * from->stride);
        tg_set(to->data, to->type, i * to->stride, mask ? value != 0 : value);
    }
}

typedef struct job {
    const tg_tensor *to, *from;
    const tg_tensor *distinct; /* whose dimensions of stride 0 are walked once */
    int mask;
} job;

/* Runs of the last dimension. */
static void convert_chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const job *j = arg;
    const int last = j->to->ndim - 1;
    for (int64_t r = begin; r < end; r++) {
        int64_t to = 0, from = 0, rest = r;
        for (int i = last - 1; i >= 0; i--) {
            if (tg_stride(j->distinct, i) == 0)
                continue;
            const int64_t at = rest % j->to->shape[i];
            rest /= j->to->shape[i];
            to += at * tg_stride(j->to, i);
            from += at * tg_stride(j->from, i);
        }
        const int to_type = tg_type_of(j->to), from_type = tg_type_of(j->from);
        const run out = {(char *)tg_data(j->to) + to * (int64_t)tg_type_size(to_type), to_type,
                         last < 0 ? 1 : tg_stride(j->to, last)};
        const run in = {(char *)tg_data(j->from) + from * (int64_t)tg_type_size(from_type),
                        from_type, last < 0 ? 1 : tg_stride(j->from, last)};
        convert_run(&out, &in, j->mask, last < 0 ? 1 : j->to->shape[last]);
    }
}

static int is_mask(const conversion *c)
{
    return c->slot->rule->seen == TG_SEEN_MASK;
}

static void convert_on_host(tg_ctx *ctx, const conversion *c, const tg_tensor *to,
                            const tg_tensor *from)
{
    enum { CHUNK = 16384 }; /* elements: what is worth a thread */
    const tg_tensor *t = &c->seen;
    const int64_t n = t->ndim ? t->shape[t->ndim - 1] : 1;
    int64_t runs = tg_numel(t) > 0;
    for (int i = 0; i < t->ndim - 1; i++)
        runs *= c->strides[i] ? t->shape[i] : 1;
    job j = {to, from, t, is_mask(c)};
    tg_parallel_for(ctx, runs, n < CHUNK ? CHUNK / (n + 1) + 1 : 1, convert_chunk, &j);
}

/* A tensor whose repeated elements are there once. */
typedef struct distinct_view {
    tg_tensor t;
    int64_t shape[TG_MAX_NDIM], strides[TG_MAX_NDIM];
} distinct_view;

static void see_distinct(distinct_view *v, const conversion *c, const tg_tensor *t)
{
    v->t = *t;
    for (int i = 0; i < t->ndim; i++) {
        v->shape[i] = c->strides[i] || t->shape[i] == 0 ? t->shape[i] : 1;
        v->strides[i] = tg_stride(t, i);
    }
    v->t.shape = v->shape;
    v->t.strides = v->strides;
}

static tg_status convert(tg_ctx *ctx, const conversion *c, const tg_tensor *to,
                         const tg_tensor *from)
{
    distinct_view there, here;
    if (to->device.device_type == TG_DEVICE_CPU) {
        convert_on_host(ctx, c, to, from);
        return TG_OK;
    }
    see_distinct(&there, c, to);
    see_distinct(&here, c, from);
    return tg_numel(to) ? tg_ctx_memory(ctx)->convert(ctx, &there.t, &here.t, is_mask(c)) : TG_OK;
}

/* What an implementation reads of it. Parameter gradients are read where they are added to. */
static int is_read(const conversions *c, const conversion *x)
{
    const tg_op_info *op = &tg_ops[c->op];
    int reads = !x->slot->output || op->args[x->slot->slot].reads;
    for (int i = 0; x->slot->output && i < op->nargs; i++)
        if (strcmp(op->args[i].name, "accumulate") == 0)
            reads &= c->slots[i] != 0;
    return reads;
}

tg_status tg_convert(tg_ctx *ctx, conversions *c)
{
    for (int i = 0; i < c->count; i++) {
        tg_tensor *t = &c->at[i].seen;
        const size_t elements = tg_numel(t) ? (size_t)tg_reach_of(t, 0) : 0;
        t->data = tg_workspace_beside(ctx, t, elements * tg_type_size(tg_type_of(t)));
        t->byte_offset = 0;
        if (!t->data)
            return TG_ENOMEM;
    }
    for (int i = 0; i < c->count; i++)
        if (is_read(c, &c->at[i]))
            TG_TRY(convert(ctx, &c->at[i], &c->at[i].seen, c->at[i].given));
    return TG_OK;
}

tg_status tg_convert_back(tg_ctx *ctx, const conversions *c)
{
    for (int i = 0; i < c->count; i++)
        if (c->at[i].slot->output)
            TG_TRY(convert(ctx, &c->at[i], c->at[i].given, &c->at[i].seen));
    return TG_OK;
}
