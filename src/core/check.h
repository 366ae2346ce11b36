/* src/core/check.h - the checks that an operator's tg_check_<op>() is made of.
 *
 * Each returns TG_OK or fails with a message that names operator, argument, found and expected. The
 * common, good case is decided inline; the rest, message included, stands in check.c.
 *
 * Before an operator's own check runs, core has checked by the schema: args, required tensors and
 * their data are not NULL, 0 <= ndim <= TG_MAX_NDIM, sizes are not negative, all tensors lie on
 * one device, outputs overlap nothing that ops.def does not allow, floating-point options lie in
 * the range of f32, and those that ops.def gives a list of choices have one of them. The check
 * sees tensors as the caller gave them. Element types and shapes are those of ops.def, and
 * strides need no check: implementations see the layouts that ops.def says. NULL optional tensors
 * pass every check below.
 */
#ifndef TG_CORE_CHECK_H
#define TG_CORE_CHECK_H

#include <float.h>
#include <stdint.h>

#include "tigon/status.h"
#include "tigon/tensor.h"

/* The messages. */
tg_status tg_refuse_alone(const char *op, const char *name, const char *of_name);
tg_status tg_refuse_i64(const char *op, const char *name, int64_t value, int64_t low, int64_t high);
tg_status tg_refuse_f64(const char *op, const char *name, double value, double low, double high,
                        int below);
tg_status tg_refuse_positive(const char *op, const char *name, double value);

#define TG_LIKELY(condition) __builtin_expect(!!(condition), 1)

static inline int tg_same_shape(const tg_tensor *a, const tg_tensor *b)
{
    if (a->ndim != b->ndim)
        return 0;
    for (int i = 0; i < a->ndim; i++)
        if (a->shape[i] != b->shape[i])
            return 0;
    return 1;
}

/* The gradient of `of`, if it is given: of its type; beside f32 of a 16-bit type as well, but then
 * not in its buffer. */
tg_status tg_expect_gradient(const char *op, const char *name, const tg_tensor *t,
                             const char *of_name, const tg_tensor *of);

/* Same element type as `like`. */
tg_status tg_expect_same_type(const char *op, const char *name, const tg_tensor *t,
                              const char *like_name, const tg_tensor *like);

/* The gradient of an optional tensor: given only where that is. */
static inline tg_status tg_expect_with(const char *op, const char *name, const tg_tensor *t,
                                       const char *of_name, const tg_tensor *of)
{
    return TG_LIKELY(!t || of) ? TG_OK : tg_refuse_alone(op, name, of_name);
}

/* Every index in [0, count), or *ignored where that is not NULL, or anything where mask, of the
 * same shape, is 0; else a message with the first that is not. Device memory cannot be read from
 * here: there the kernel has to be trusted. t, mask: arguments of the call, of any type and any
 * strides that ops.def allows; mask may be NULL. */
tg_status tg_expect_indices_where(const char *op, const char *name, const tg_tensor *t,
                                  int64_t count, const int64_t *ignored, const tg_tensor *mask);

static inline tg_status tg_expect_indices(const char *op, const char *name, const tg_tensor *t,
                                          int64_t count, const int64_t *ignored)
{
    return tg_expect_indices_where(op, name, t, count, ignored, NULL);
}

/* Option in [low, high]. */
static inline tg_status tg_expect_i64(const char *op, const char *name, int64_t value, int64_t low,
                                      int64_t high)
{
    return TG_LIKELY(value >= low && value <= high) ? TG_OK
                                                    : tg_refuse_i64(op, name, value, low, high);
}

/* Option in [low, high]. Core has checked that options lie in the range of f32. */
static inline tg_status tg_expect_f64(const char *op, const char *name, double value, double low,
                                      double high)
{
    return TG_LIKELY(value >= low && value <= high) ? TG_OK
                                                    : tg_refuse_f64(op, name, value, low, high, 0);
}

/* Option in [low, high), high excluded. */
static inline tg_status tg_expect_below(const char *op, const char *name, double value, double low,
                                        double high)
{
    return TG_LIKELY(value >= low && value < high) ? TG_OK
                                                   : tg_refuse_f64(op, name, value, low, high, 1);
}

/* Option above 0, that f32 holds as a normal number: kernels divide by it. */
static inline tg_status tg_expect_positive(const char *op, const char *name, double value)
{
    return TG_LIKELY(value >= FLT_MIN) ? TG_OK : tg_refuse_positive(op, name, value);
}

#endif
