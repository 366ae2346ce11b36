/* Calls of a form that has passed before: a trainer makes the same few thousands of times.
 *
 * What the check of a call finds depends on its form (types, sizes, strides, options), on where its tensors lie, and, for
 * some operators, on indices in their data. A context remembers forms that passed. A call of one of them is asked for the
 * rest alone: data there and aligned, tensors in the same order in memory and apart, indices in range. Whatever is not quite
 * so goes through the whole check, which tells what is wrong.
 *
 * Programs repeat their calls in order: the form that followed the last one before is the first to be compared. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"

_Static_assert(sizeof(tg_device) == 8 && sizeof(tg_dtype) == 4 &&
                   offsetof(tg_tensor, dtype) == offsetof(tg_tensor, ndim) + 4,
               "device, and rank with type, are one word each");

/* Indices that a check read. */
typedef struct reading {
    const tg_tensor *t; /* while the form is written down; then slot */
    int slot, times;
    index_rows range;
} reading;

/* Two sizes, or two options. */
typedef uint64_t pair __attribute__((vector_size(16)));
enum { PAIRS = TG_MAX_NDIM / 2 };

/* A tensor of a call that passed. shape, strides: see write_pairs(); both the shape where it has no strides. */
typedef struct form_tensor {
    uint64_t rank_type; /* as it lies in tg_tensor */
    uint64_t reach;    /* from its address to behind its last element, and behind those before it */
    uint64_t distance; /* from the address of the one before */
    uint32_t known;    /* one load: the slot in the argument struct, and the rest below */
    pair shape[PAIRS], strides[PAIRS];
} form_tensor;

/* In form_tensor.known, above the slot: */
enum {
    ALIGN_SHIFT = 8, /* bits of the address that are 0 */
    HAS_STRIDES = 1u << 31
};

typedef struct form {
    struct form *after; /* of the call that followed the last of this form */
    uint64_t device;    /* of all tensors, as it lies in tg_tensor */
    int device_type, canonical;
    uint32_t tensors, absent, options;
    uint32_t first_option;  /* ops.def lists options after tensors */
    uint8_t null[MAX_ARGS]; /* the slots of tensors that were absent */
    pair option[MAX_ARGS / 2];
    reading read;
    form_tensor tensor[]; /* by rising address */
} form;

/* What tg_check_reads_indices() leaves of a call that is being checked. */
static _Thread_local reading *reads;

void tg_check_reads_indices(const tg_tensor *t, int64_t count, const int64_t *ignored)
{
    if (!reads)
        return;
    reads->t = t;
    reads->times += tg_index_rows(&reads->range, t, count, ignored) ? 1 : 2; /* 2: not remembered */
}

/* ---- a call that passed is written down ---- */

static const char *address_of(const tg_tensor *t)
{
    return (const char *)t->data + t->byte_offset;
}

static int slot_of(const form_tensor *x)
{
    return x->known & 255;
}

/* The first pair, the last (they overlap in three dimensions), and of more than four those between. */
static void write_pairs(pair *to, const int64_t *size, int n)
{
    const uint64_t *const u = (const uint64_t *)size;
    for (int k = 0; k < PAIRS; k++) {
        const int i = k == 1 ? n - 2 : k > 1 ? 2 * k - 2 : 0;
        to[k] = (pair){i >= 0 && i < n ? u[i] : 0, i >= 0 && i + 1 < n ? u[i + 1] : 0};
    }
}

static form_tensor describe(const tg_tensor *t, int slot)
{
    form_tensor x = {0};
    const size_t size = tg_type_size(tg_type_of(t));
    memcpy(&x.rank_type, &t->ndim, 8);
    x.reach = tg_numel(t) > 0 ? (uint64_t)tg_reach_of(t, 0) * size : 0;
    x.known = (uint32_t)slot | (uint32_t)((size - 1) & 255) << ALIGN_SHIFT |
              (t->strides ? HAS_STRIDES : 0);
    write_pairs(x.shape, t->shape, t->ndim);
    write_pairs(x.strides, t->strides ? t->strides : t->shape, t->ndim);
    return x;
}

/* In the order of their addresses. */
static void write_tensor(form *f, const void *const *slots, int slot)
{
    int k = (int)f->tensors++;
    for (; k > 0 && address_of(slots[slot_of(&f->tensor[k - 1])]) > address_of(slots[slot]); k--)
        f->tensor[k] = f->tensor[k - 1];
    f->tensor[k] = describe(slots[slot], slot);
}

/* Those that overlap, as one in place of another does and columns beside columns, pass again at the same distances; others
 * get a distance at which they would not overlap. */
static void write_distances(form *f, const void *const *slots)
{
    for (form_tensor *x = f->tensor + 1; x < f->tensor + f->tensors; x++) {
        const char *const before = address_of(slots[slot_of(x - 1)]);
        const uint64_t reach = x[-1].reach;
        x->distance = (uint64_t)(address_of(slots[slot_of(x)]) - before);
        if (x->distance > reach)
            x->distance = reach;
        if (reach - x->distance > x->reach)
            x->reach = reach - x->distance;
    }
}

/* From the tensor to the slot that holds it. A form has room for one reading. */
static int find_slot(reading *r, const void *const *slots, int tensors)
{
    if (r->times == 0)
        return 1;
    while (r->slot < tensors && slots[r->slot] != r->t)
        r->slot++;
    return r->times == 1 && r->slot < tensors;
}

/* A new form, or the oldest: all of an operator are of one size. NULL: out of memory. */
static form *place(forms *known, int tensors)
{
    if (known->count == FORMS) {
        form *f = known->at[known->oldest];
        known->oldest = (known->oldest + 1) % FORMS;
        return f;
    }
    form *f = malloc(sizeof *f + (size_t)tensors * sizeof *f->tensor);
    if (f)
        known->at[known->count++] = f;
    return f;
}

static void remember(forms *known, int op, const void *const *slots, reading *r)
{
    const op_tensors *list = tg_op_tensors(op);
    const int tensors = list->count, options = tg_ops[op].nargs - tensors;
    if (!find_slot(r, slots, tensors) || (tensors > 0 && list->at[tensors - 1].slot != tensors - 1))
        return;
    form *f = place(known, tensors);
    if (!f)
        return;
    *f = (form){.device_type = known->device_type,
                .canonical = known->canonical,
                .read = *r,
                .first_option = tensors,
                .options = options};
    memcpy(f->option, slots + tensors, (size_t)options * sizeof *slots);
    for (int i = 0; i < tensors; i++) {
        if (slots[i])
            write_tensor(f, slots, i);
        else
            f->null[f->absent++] = (uint8_t)i;
    }
    if (f->tensors)
        memcpy(&f->device, &((const tg_tensor *)slots[slot_of(f->tensor)])->device, 8);
    write_distances(f, slots);
    f->after = f;
    if (known->last)
        known->last->after = f;
    known->last = f;
}

static tg_status check_and_remember(forms *known, int op, const void *args)
{
    reading r = {0};
    reads = &r;
    const tg_status status = tg_check_all(op, args, &known->device_type);
    reads = NULL;
    if (status != TG_OK)
        return status;
    known->canonical = tg_is_canonical(op, args);
    remember(known, op, args, &r);
    return TG_OK;
}

void tg_forms_close(forms *known)
{
    for (int i = 0; i < known->count; i++)
        free(known->at[i]);
}

/* ---- a call is compared ----
 *
 * What may not be followed is a branch that is hardly ever taken; sizes and options are collected in `differ`. Loads are
 * what counts: two of them pass in a cycle. */

static inline uint64_t word(const void *p)
{
    uint64_t w;
    memcpy(&w, p, sizeof w);
    return w;
}

static inline pair pair_at(const void *p)
{
    pair x;
    memcpy(&x, p, sizeof x);
    return x;
}

static inline pair sizes_differ(const pair *known, const int64_t *size, int64_t n)
{
    pair d = pair_at(size) ^ known[0];
    if (n > 2)
        d |= pair_at(size + n - 2) ^ known[1];
    for (int64_t k = 2; __builtin_expect(2 * k < n, 0); k++)
        d |= pair_at(size + 2 * k - 2) ^ known[k];
    return d;
}

/* end: behind the tensors before. */
static inline int equal_tensor(const form_tensor *x, uint32_t known, uint64_t device,
                               const tg_tensor *t, const char **end, pair *differ)
{
    if (!t || word(&t->device) != device || word(&t->ndim) != x->rank_type)
        return 0;
    const int64_t n = t->ndim, *const shape = t->shape, *strides = t->strides;
    if (!strides) {
        if (known & HAS_STRIDES)
            return 0;
        strides = shape;
    } else if (!(known & HAS_STRIDES))
        return 0;
    if (TG_LIKELY(n > 1)) {
        if (!shape)
            return 0;
        *differ |= sizes_differ(x->shape, shape, n) | sizes_differ(x->strides, strides, n);
    } else if (n == 1 && (!shape || (uint64_t)*shape != x->shape[0][0] ||
                          (uint64_t)*strides != x->strides[0][0]))
        return 0;
    const void *const data = t->data;
    const char *const at = (const char *)data + t->byte_offset;
    if (((uintptr_t)at & (known >> ALIGN_SHIFT & 255)) || (!data && x->reach > 0))
        return 0;
    if (at < *end && (uint64_t)(at - *end) != x->distance - x[-1].reach)
        return 0;
    *end = at + x->reach;
    return 1;
}

/* A function of its own, so that all it needs in its loop is in registers. */
static __attribute__((noinline)) int equal(const form *f, const void *const *slots)
{
    pair differ = {0};
    const char *end = NULL;
    const uint64_t device = f->device;
    for (const form_tensor *x = f->tensor, *e = x + f->tensors; x < e; x++) {
        const uint32_t known = x->known;
        if (!equal_tensor(x, known, device, slots[known & 255], &end, &differ))
            return 0;
    }
    const void *const *const options = slots + f->first_option;
    const size_t n = f->options;
    for (size_t i = 0; i < n / 2; i++)
        differ |= pair_at(options + 2 * i) ^ f->option[i];
    uint64_t rest = n & 1 ? (uintptr_t)options[n - 1] ^ f->option[n / 2][0] : 0;
    for (const uint8_t *i = f->null, *e = i + f->absent; i < e; i++)
        rest |= (uintptr_t)slots[*i];
    return !(differ[0] | differ[1] | rest);
}

/* NULL: no form that is known. */
static form *search(const forms *known, const void *const *slots)
{
    for (int i = 0; slots && i < known->count; i++)
        if (equal(known->at[i], slots))
            return known->at[i];
    return NULL;
}

static inline __attribute__((always_inline)) tg_status check_indices(forms *known, int op,
                                                                     const void *args)
{
    const reading *const r = &known->last->read;
    const tg_tensor *const *slots = args;
    if (TG_LIKELY(r->times == 0 || tg_in_range(&r->range, tg_data(slots[r->slot]))))
        return TG_OK;
    return tg_check_all(op, args, &known->device_type);
}

static __attribute__((noinline)) tg_status check_other(forms *known, int op, const void *args)
{
    form *f = search(known, args);
    if (!f)
        return check_and_remember(known, op, args);
    known->last->after = f;
    known->last = f;
    known->device_type = f->device_type;
    known->canonical = f->canonical;
    return check_indices(known, op, args);
}

tg_status tg_check_call(forms *known, int op, const void *args)
{
    if (!TG_LIKELY(args && known->last && equal(known->last->after, args)))
        return check_other(known, op, args);
    known->last = known->last->after;
    known->device_type = known->last->device_type;
    known->canonical = known->last->canonical;
    return check_indices(known, op, args);
}
