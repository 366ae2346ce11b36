/* planted.h - what the parts of the plug-in `planted` share: a call of any operator,
 * and how to spoil it. */
#ifndef PLANTED_H
#define PLANTED_H

#include <stdint.h>
#include <string.h>
#include <tigon/backend.h>
#include <tigon/tigon.h>

/* One call: its arguments as slots, which a fault may change before it calls right(). */
typedef struct call {
    tg_ctx *ctx;
    const tg_op_info *op;
    union slot {
        const tg_tensor *tensor;
        double f64;
        int64_t i64;
    } slot[32];
    tg_status (*run)(tg_ctx *ctx, const void *args); /* the default's */
} call;

typedef struct fault {
    const char *name;
    const char *kind;  /* of conformance: strict must name it */
    const char *where; /* operator and type that show it; NULL: rms_norm_forward f32 */
    tg_status (*run)(call *c);
} fault;

extern const fault faults_of_values[], faults_of_memory[], faults_of_state[], faults_of_process[];

static inline tg_status right(call *c)
{
    return c->run(c->ctx, c->slot);
}

/* ---- arguments ---- */

static inline int is_output(const call *c, int i)
{
    const tg_arg_kind kind = c->op->args[i].kind;
    return (kind == TG_ARG_OUT || kind == TG_ARG_OUT_OPT) && c->slot[i].tensor;
}

static inline int is_input(const call *c, int i)
{
    const tg_arg_kind kind = c->op->args[i].kind;
    return (kind == TG_ARG_IN || kind == TG_ARG_OPT) && c->slot[i].tensor;
}

static inline const tg_tensor *first_output(const call *c)
{
    int i = 0;
    while (!is_output(c, i))
        i++;
    return c->slot[i].tensor;
}

static inline const tg_tensor *first_input(const call *c)
{
    int i = 0;
    while (!is_input(c, i))
        i++;
    return c->slot[i].tensor;
}

/* The type T: the first input's that is no index. */
static inline int type_of(const call *c)
{
    int i = 0;
    while (!is_input(c, i) || tg_type_of(c->slot[i].tensor) == TG_I64)
        i++;
    return tg_type_of(c->slot[i].tensor);
}

/* ---- elements ---- */

static inline char *start(const tg_tensor *t)
{
    return (char *)t->data + t->byte_offset;
}

static inline int64_t columns(const tg_tensor *t)
{
    return t->ndim ? t->shape[t->ndim - 1] : 1;
}

static inline int64_t rows(const tg_tensor *t)
{
    return columns(t) ? tg_numel(t) / columns(t) : 0;
}

/* Row r of the leading dimensions in row-major order. */
static inline char *row(const tg_tensor *t, int64_t r)
{
    int64_t offset = 0, dense = columns(t);
    for (int i = t->ndim - 2; i >= 0; dense *= t->shape[i--]) {
        offset += r % t->shape[i] * (t->strides ? t->strides[i] : dense);
        r /= t->shape[i];
    }
    return start(t) + offset * (int64_t)tg_type_size(tg_type_of(t));
}

static inline size_t row_bytes(const tg_tensor *t)
{
    return (size_t)columns(t) * tg_type_size(tg_type_of(t));
}

#endif
