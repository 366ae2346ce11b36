/* toy_launch.c - from a call of an operator to one on the queue, and what kernels read and
 * write elements with. */
#include <stdlib.h>
#include <string.h>

#include "toy.h"

static tg_status take_tensor(toy_call *call, int slot, const tg_tensor *t)
{
    tg_tensor *mine = &call->tensor[slot];
    const char *const data = tg_data(t);
    const size_t bytes = tg_extent(t);
    if (tg_type_of(t) == TG_F64)
        return toy_host->fail(TG_EUNSUPPORTED, "toy: %s: it has no f64", call->op);
    *mine = *t;
    mine->data = bytes ? toy_see(data, bytes) : NULL;
    mine->byte_offset = 0;
    if (bytes && !mine->data)
        return toy_host->fail(TG_EINVAL, "toy: %s: argument %d is no memory of this device",
                              call->op, slot);
    mine->shape = memcpy(call->shape[slot], t->shape, (size_t)t->ndim * sizeof *t->shape);
    if (t->strides)
        mine->strides =
            memcpy(call->strides[slot], t->strides, (size_t)t->ndim * sizeof *t->strides);
    call->slot[slot] = (uint64_t)(uintptr_t)mine;
    return TG_OK;
}

static tg_status fill(toy_call *call, const tg_op_info *op, const void *args, size_t scratch)
{
    memcpy(call->slot, args, (size_t)op->nargs * sizeof *call->slot);
    for (int i = 0; i < op->nargs && op->args[i].kind <= TG_ARG_OUT_OPT; i++) {
        const tg_tensor *t = ((const tg_tensor *const *)args)[i];
        const tg_status status = t ? take_tensor(call, i, t) : TG_OK;
        if (status != TG_OK)
            return status;
    }
    if (scratch == 0)
        return TG_OK;
    const void *p = toy_host->device_workspace(call->ctx, scratch);
    call->scratch = p ? toy_see(p, scratch) : NULL;
    call->bytes = scratch;
    return call->scratch ? TG_OK : TG_ENOMEM;
}

/* TOY_WRONG: the operator's first output is not what it should be. */
static void spoil(toy_call *call)
{
    const tg_op_info *op = tg_op_at(tg_op_by_name(call->op));
    int i = 0;
    while (op->args[i].kind != TG_ARG_OUT)
        i++;
    const tg_rows y = tg_rows_of((const tg_tensor *)(uintptr_t)call->slot[i]);
    for (int64_t r = 0; r < y.rows; r++)
        for (int64_t j = 0; j < y.n; j++)
            toy_set(&y, r, j, 1.5 * toy_get(&y, r, j));
}

static void run(toy_call *call)
{
    const char *wrong = getenv("TOY_WRONG");
    call->kernel(call);
    if (wrong && !strcmp(wrong, call->op))
        spoil(call);
}

tg_status toy_launch(tg_ctx *ctx, int op, const void *args, void (*kernel)(toy_call *call),
                     size_t scratch)
{
    const tg_op_info *info = tg_op_at(op);
    toy_call *call = calloc(1, sizeof *call);
    if (!call)
        return toy_host->fail(TG_ENOMEM, "toy: no memory for a call");
    call->kernel = kernel;
    call->ctx = ctx;
    call->op = info->name;
    call->run = run;
    const tg_status status = fill(call, info, args, scratch);
    if (status == TG_OK)
        toy_put(call);
    else
        free(call);
    return status;
}

/* ---- elements ---- */

static double load(int type, const void *at)
{
    int64_t whole;
    int32_t index;
    float f;
    _Float16 half;
    uint16_t upper;
    switch (type) {
    case TG_I32:
        memcpy(&index, at, sizeof index);
        return index;
    case TG_U8:
    case TG_BOOL:
        return *(const uint8_t *)at;
    case TG_F32:
        memcpy(&f, at, sizeof f);
        return f;
    case TG_F16:
        memcpy(&half, at, sizeof half);
        return half;
    case TG_I64:
        memcpy(&whole, at, sizeof whole);
        return (double)whole;
    default: /* bf16: the upper half of an f32 */
        memcpy(&upper, at, sizeof upper);
        const uint32_t bits = (uint32_t)upper << 16;
        memcpy(&f, &bits, sizeof f);
        return f;
    }
}

static void store(int type, void *at, double value)
{
    const float f = (float)value;
    _Float16 half;
    int64_t whole;
    int32_t index;
    uint32_t bits;
    uint16_t upper;
    switch (type) {
    case TG_I32:
        index = (int32_t)value;
        memcpy(at, &index, sizeof index);
        break;
    case TG_U8:
    case TG_BOOL:
        *(uint8_t *)at = (uint8_t)value;
        break;
    case TG_F32:
        memcpy(at, &f, sizeof f);
        break;
    case TG_F16: /* here alone: without such instructions it is slow */
        half = (_Float16)value;
        memcpy(at, &half, sizeof half);
        break;
    case TG_I64:
        whole = (int64_t)value;
        memcpy(at, &whole, sizeof whole);
        break;
    default:
        memcpy(&bits, &f, sizeof bits);
        upper = value != value ? 0x7fc0 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
        memcpy(at, &upper, sizeof upper);
    }
}

double toy_get(const tg_rows *t, int64_t row, int64_t column)
{
    return load(t->type, t->data + (row * t->stride + column) * (int64_t)tg_type_size(t->type));
}

void toy_set(const tg_rows *t, int64_t row, int64_t column, double value)
{
    store(t->type, t->data + (row * t->stride + column) * (int64_t)tg_type_size(t->type), value);
}

/* ---- conversions ---- */

static void convert(toy_call *call)
{
    const tg_tensor *to = &call->tensor[0], *from = &call->tensor[1];
    const int mask = (int)call->slot[2], to_type = tg_type_of(to), from_type = tg_type_of(from);
    for (int64_t k = 0; k < tg_numel(to); k++) {
        int64_t rest = k, i = 0, j = 0;
        for (int d = to->ndim - 1; d >= 0; rest /= to->shape[d--]) {
            i += rest % to->shape[d] * to->strides[d];
            j += rest % to->shape[d] * from->strides[d];
        }
        const double value =
            load(from_type, (const char *)from->data + j * (int64_t)tg_type_size(from_type));
        store(to_type, (char *)to->data + i * (int64_t)tg_type_size(to_type),
              mask ? value != 0 : value);
    }
}

tg_status toy_convert(tg_ctx *ctx, const tg_tensor *to, const tg_tensor *from, int mask)
{
    toy_call *call = calloc(1, sizeof *call);
    if (!call)
        return toy_host->fail(TG_ENOMEM, "toy: no memory for a conversion");
    call->run = convert;
    call->ctx = ctx;
    call->op = "convert";
    tg_status status = take_tensor(call, 0, to);
    if (status == TG_OK)
        status = take_tensor(call, 1, from);
    call->slot[2] = (uint64_t)mask;
    if (status == TG_OK)
        toy_put(call);
    else
        free(call);
    return status;
}
