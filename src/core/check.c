/* Checks that operators are made of: those whose good case check.h decides, with their messages. */
#include <stdio.h>
#include <string.h>

#include "core/core.h"

const char *tg_describe(const tg_tensor *t, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "%s[", tg_type_words(tg_type_of(t)).text);
    for (int i = 0; i < t->ndim && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%lld", i ? "," : "",
                                 (long long)t->shape[i]);
    if (used < size)
        snprintf(text + used, size - used, "]");
    return text;
}

/* ---- tensors ---- */

tg_status tg_refuse_alone(const char *op, const char *name, const char *of_name)
{
    return tg_fail(TG_EINVAL, "%s: %s is given but %s is NULL, expected both or neither", op, name,
                   of_name);
}

tg_status tg_expect_same_type(const char *op, const char *name, const tg_tensor *t,
                              const char *like_name, const tg_tensor *like)
{
    if (tg_type_of(t) == tg_type_of(like))
        return TG_OK;
    return tg_fail(TG_EINVAL, "%s: %s is of type %s, expected %s, the type of %s", op, name,
                   tg_type_words(tg_type_of(t)).text, tg_type_words(tg_type_of(like)).text,
                   like_name);
}

tg_status tg_expect_gradient(const char *op, const char *name, const tg_tensor *t,
                             const char *of_name, const tg_tensor *of)
{
    if (!t)
        return TG_OK;
    const int type = tg_type_of(of), out = tg_type_of(t);
    if (out != type && (type != TG_F32 || out == TG_F64))
        return tg_fail(TG_EINVAL, "%s: %s is %s, expected %s, the type of %s", op, name,
                       tg_type_name(out), tg_type_name(type), of_name);
    if (out != type && tg_data(t) == tg_data(of) && tg_numel(of))
        return tg_fail(TG_EINVAL, "%s: %s is %s in the buffer of %s, expected f32", op, name,
                       tg_type_name(out), of_name);
    return TG_OK;
}

/* ---- options ---- */

tg_status tg_refuse_i64(const char *op, const char *name, int64_t value, int64_t low, int64_t high)
{
    if (value >= low && value <= high)
        return TG_OK;
    if (high == INT64_MAX)
        return tg_fail(TG_EINVAL, "%s: %s is %lld, expected %lld or more", op, name,
                       (long long)value, (long long)low);
    return tg_fail(TG_EINVAL, "%s: %s is %lld, expected %lld to %lld", op, name, (long long)value,
                   (long long)low, (long long)high);
}

tg_status tg_refuse_f64(const char *op, const char *name, double value, double low, double high,
                        int below)
{
    if (high >= (double)FLT_MAX)
        return tg_fail(TG_EINVAL, "%s: %s is %.17g, expected at least %g", op, name, value, low);
    return tg_fail(TG_EINVAL, "%s: %s is %.17g, expected at least %g and %s %g", op, name, value,
                   low, below ? "below" : "at most", high);
}

tg_status tg_refuse_positive(const char *op, const char *name, double value)
{
    return tg_fail(TG_EINVAL, "%s: %s is %g, expected a positive number, at least %g", op, name,
                   value, (double)FLT_MIN);
}
