/* src/rows/slice.h - logits of some classes of a vocabulary, whose other classes are elsewhere: on
 * another device, or in another process. Plain C: the definitions stand on it as well. */
#ifndef TG_ROWS_SLICE_H
#define TG_ROWS_SLICE_H

#include "core/services.h"

/* Classes from `start` on, of `all`; 0 of all: there is no slice, the logits are
 * those of all classes. */
typedef struct vocab_slice {
    int64_t start, all;
} vocab_slice;

static inline int64_t slice_vocab(vocab_slice s, int64_t classes)
{
    return s.all ? s.all : classes;
}

/* Where the logit of a target is among those of `classes` classes, -1: in another slice. */
static inline int64_t slice_place(vocab_slice s, int64_t target, int64_t classes)
{
    const int64_t place = target - s.start;
    return place >= 0 && place < classes ? place : -1;
}

/* What needs all classes, by the name of its argument. */
typedef struct slice_refusal {
    const char *name;
    int given;
} slice_refusal;

static inline tg_status slice_expect(const char *op, vocab_slice s, int64_t classes,
                                     const slice_refusal *refusals, int count)
{
    if (!s.all)
        return tg_expect_i64(op, "vocab_start", s.start, 0, 0);
    TG_TRY(tg_expect_i64(op, "vocab_size", s.all, classes ? classes : 1, INT64_MAX));
    TG_TRY(tg_expect_i64(op, "vocab_start", s.start, 0, s.all - classes));
    for (int i = 0; i < count; i++)
        if (refusals[i].given)
            return tg_fail(TG_EINVAL,
                           "%s: %s is given, expected none beside vocab_size: it takes the logits "
                           "of all classes",
                           op, refusals[i].name);
    return classes
               ? TG_OK
               : tg_fail(TG_EINVAL, "%s: there are no classes, expected one beside vocab_size", op);
}

#endif
