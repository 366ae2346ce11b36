/* Calls of a form that has passed before: a trainer makes the same few thousands of times.
 *
 * What the check of a call finds depends on its form (types, sizes, strides, options), on where its tensors lie, and, for
 * some operators, on indices in their data. A context remembers for each operator the form that passed last. A call of that
 * form is asked for the rest alone: data there and aligned, tensors in the same order in memory and apart, indices in
 * range. Whatever is not quite so goes through the whole check, which tells what is wrong. */
#include <stddef.h>
#include <string.h>

#include "core/core.h"

_Static_assert(sizeof(tg_device) == 8 && sizeof(tg_dtype) == 4 &&
                   offsetof(tg_tensor, dtype) == offsetof(tg_tensor, ndim) + 4,
               "device, and rank with type, are one word each");

/* What tg_expect_indices() and tg_check_reads_data() leave for the form that is being checked. */
static _Thread_local form *checked;

/* ---- a call that passed is written down ---- */

void tg_check_reads_data(void)
{
    if (checked)
        checked->reads_data = 1;
}

void tg_form_indices(const char *name, const tg_tensor *t, int64_t count, const int64_t *ignored)
{
    if (!checked)
        return;
    if (checked->indices == FORM_INDICES) {
        checked->reads_data = 1;
        return;
    }
    checked->index[checked->indices++] =
        (form_index){name, t, 0, count, ignored ? *ignored : 0, ignored != NULL};
}

static const char *address_of(const tg_tensor *t)
{
    return (const char *)t->data + t->byte_offset;
}

static form_tensor describe(const tg_tensor *t, int slot)
{
    form_tensor x = {.slot = (uint8_t)slot, .has_strides = t->strides != NULL};
    memcpy(&x.head[0], &t->device, 8);
    memcpy(&x.head[1], &t->ndim, 8);
    const size_t size = tg_type_size(tg_type_of(t));
    x.bytes = tg_numel(t) > 0 ? (uint64_t)tg_reach_of(t, 0) * size : 0;
    x.align = (uint16_t)(size - 1);
    return x;
}

/* In the order of their addresses. Two at one address pass again if they have now. */
static void write_tensors(form *f, const tg_op_info *op, const void *const *slots)
{
    f->tensors = f->words = 0;
    for (int i = 0; i < op->nargs; i++) {
        const int option = op->args[i].kind == TG_ARG_F64 || op->args[i].kind == TG_ARG_I64;
        if (option || !slots[i]) {
            f->word[f->words++] = (form_word){(uintptr_t)slots[i], i};
            continue;
        }
        int k = f->tensors++;
        for (; k > 0 && address_of(slots[f->tensor[k - 1].slot]) > address_of(slots[i]); k--)
            f->tensor[k] = f->tensor[k - 1];
        f->tensor[k] = describe(slots[i], i);
    }
    for (int k = 1; k < f->tensors; k++) {
        const form_tensor *before = &f->tensor[k - 1];
        f->tensor[k].twin =
            address_of(slots[f->tensor[k].slot]) == address_of(slots[before->slot]) &&
            f->tensor[k].bytes == before->bytes;
    }
}

static int write_sizes(form *f, const void *const *slots)
{
    int n = 0;
    for (int k = 0; k < f->tensors; k++) {
        const tg_tensor *t = slots[f->tensor[k].slot];
        if (n + 2 * t->ndim > FORM_SIZES)
            return 0;
        for (int i = 0; i < t->ndim; i++)
            f->size[n++] = t->shape[i];
        for (int i = 0; t->strides && i < t->ndim; i++)
            f->size[n++] = t->strides[i];
    }
    return 1;
}

/* From tensors to the slots that hold them. */
static int find_slots(form *f, const void *const *slots)
{
    for (int k = 0; k < f->indices; k++) {
        int i = 0;
        while (i < f->tensors && slots[f->tensor[i].slot] != f->index[k].t)
            i++;
        if (i == f->tensors)
            return 0;
        f->index[k].slot = f->tensor[i].slot;
    }
    return 1;
}

static tg_status check_and_remember(form *f, int op, const void *args, int *device_type)
{
    f->known = f->indices = f->reads_data = 0;
    checked = f;
    const tg_status status = tg_check_all(op, args, device_type);
    checked = NULL;
    if (status || f->reads_data)
        return status;
    f->device_type = *device_type;
    write_tensors(f, &tg_ops[op], args);
    f->known = write_sizes(f, args) && find_slots(f, args);
    return TG_OK;
}

/* ---- a call is compared ---- */

typedef uint64_t two __attribute__((vector_size(16), aligned(8)));

/* Zero where the n sizes are equal. Two at a time: there are two to four. */
static inline uint64_t differ_in(const int64_t *a, const int64_t *b, int n)
{
    uint64_t differ = 0;
    if (n & 1)
        differ = (uint64_t)(*a++ ^ *b++);
    for (n >>= 1; n > 0; n--, a += 2, b += 2) {
        const two x = *(const two *)(const uint64_t *)a ^ *(const two *)(const uint64_t *)b;
        differ |= x[0] | x[1];
    }
    return differ;
}

static inline int equal(const form *f, const void *const *slots)
{
    for (const form_word *w = f->word; w < f->word + f->words; w++)
        if (w->value != (uintptr_t)slots[w->slot])
            return 0;
    const int64_t *sizes = f->size;
    const char *low = NULL, *end = NULL;
    for (const form_tensor *x = f->tensor; x < f->tensor + f->tensors; x++) {
        const tg_tensor *t = slots[x->slot];
        uint64_t head[2];
        if (!t)
            return 0;
        memcpy(&head[0], &t->device, 8);
        memcpy(&head[1], &t->ndim, 8);
        const int n = t->ndim;
        if ((head[0] ^ x->head[0]) | (head[1] ^ x->head[1]) | (!t->shape & (n > 0)) |
            ((t->strides != NULL) ^ x->has_strides))
            return 0;
        uint64_t differ = differ_in(sizes, t->shape, n);
        sizes += n;
        if (x->has_strides) {
            differ |= differ_in(sizes, t->strides, n);
            sizes += n;
        }
        const char *const at = address_of(t);
        differ |= (uintptr_t)at & x->align;
        if (differ || (at < end && !(x->twin && at == low)) || (x->bytes > 0 && !t->data))
            return 0;
        low = at;
        end = at + x->bytes;
    }
    return 1;
}

tg_status tg_check_call(tg_ctx *ctx, int op, const void *args, int *device_type)
{
    form *f = &ctx->forms[op];
    if (!TG_LIKELY(args && f->known && equal(f, args)))
        return check_and_remember(f, op, args, device_type);
    *device_type = f->device_type;
    for (int i = 0; i < f->indices; i++) {
        const form_index *x = &f->index[i];
        TG_TRY(tg_expect_indices(tg_ops[op].name, x->name,
                                 ((const tg_tensor *const *)args)[x->slot], x->count,
                                 x->ignores ? &x->ignored : NULL));
    }
    return TG_OK;
}
