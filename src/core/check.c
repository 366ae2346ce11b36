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

/* "[2,3]": the shape alone */
static const char *shape_text(const tg_tensor *t, char *text, size_t size)
{
    char whole[160];
    snprintf(text, size, "%s", strchr(tg_describe(t, whole, sizeof whole), '['));
    return text;
}

/* ---- shapes ---- */

tg_status tg_refuse_shape(const char *op, const char *name, const tg_tensor *t,
                          const char *like_name, const tg_tensor *like)
{
    if (!t)
        return TG_OK;
    int same = t->ndim == like->ndim;
    for (int i = 0; same && i < t->ndim; i++)
        same = t->shape[i] == like->shape[i];
    if (same)
        return TG_OK;
    char found[96], expected[96];
    return tg_fail(TG_EINVAL, "%s: %s is %s, expected %s, the shape of %s", op, name,
                   shape_text(t, found, sizeof found), shape_text(like, expected, sizeof expected),
                   like_name);
}

tg_status tg_refuse_like(const char *op, const char *name, const tg_tensor *t,
                         const char *like_name, const tg_tensor *like)
{
    if (!t)
        return TG_OK;
    if (tg_type_of(t) != tg_type_of(like))
        return tg_fail(TG_EINVAL, "%s: %s is of type %s, expected %s, the type of %s", op, name,
                       tg_type_words(tg_type_of(t)).text, tg_type_words(tg_type_of(like)).text,
                       like_name);
    return tg_refuse_shape(op, name, t, like_name, like);
}

tg_status tg_refuse_ndim(const char *op, const char *name, const tg_tensor *t, int ndim)
{
    if (!t || t->ndim == ndim)
        return TG_OK;
    char found[96];
    return tg_fail(TG_EINVAL, "%s: %s is %s, of %d dimensions, expected %d", op, name,
                   shape_text(t, found, sizeof found), t->ndim, ndim);
}

tg_status tg_refuse_rows(const char *op, const char *name, const tg_tensor *t)
{
    if (!t || t->ndim > 0)
        return TG_OK;
    return tg_fail(TG_EINVAL, "%s: %s has no dimensions, expected at least one", op, name);
}

tg_status tg_refuse_vector(const char *op, const char *name, const tg_tensor *t, int64_t n,
                           const char *what)
{
    if (!t || (t->ndim == 1 && t->shape[0] == n))
        return TG_OK;
    char found[96];
    return tg_fail(TG_EINVAL, "%s: %s is %s, expected [%lld], %s", op, name,
                   shape_text(t, found, sizeof found), (long long)n, what);
}

tg_status tg_expect_gradient(const char *op, const char *name, const tg_tensor *t,
                             const char *of_name, const tg_tensor *of)
{
    if (!t)
        return TG_OK;
    const int type = tg_type_of(of), out = tg_type_of(t);
    TG_TRY(tg_expect_same_shape(op, name, t, of_name, of));
    if (out != type && (type != TG_F32 || out == TG_F64))
        return tg_fail(TG_EINVAL, "%s: %s is %s, expected %s, the type of %s", op, name,
                       tg_type_name(out), tg_type_name(type), of_name);
    if (out != type && tg_data(t) == tg_data(of) && tg_numel(of))
        return tg_fail(TG_EINVAL, "%s: %s is %s in the buffer of %s, expected f32", op, name,
                       tg_type_name(out), of_name);
    return TG_OK;
}

tg_status tg_expect_matrix(const char *op, const char *name, const tg_tensor *t, int64_t rows,
                           int64_t cols, const char *what)
{
    if (!t || (t->ndim == 2 && t->shape[0] == rows && t->shape[1] == cols))
        return TG_OK;
    char found[96];
    return tg_fail(TG_EINVAL, "%s: %s is %s, expected [%lld,%lld], %s", op, name,
                   shape_text(t, found, sizeof found), (long long)rows, (long long)cols, what);
}

tg_status tg_refuse_numel(const char *op, const char *name, const tg_tensor *t, int64_t n,
                          const char *what)
{
    if (!t || tg_numel(t) == n)
        return TG_OK;
    char found[96];
    return tg_fail(TG_EINVAL, "%s: %s is %s, of %lld elements, expected %lld, %s", op, name,
                   shape_text(t, found, sizeof found), (long long)tg_numel(t), (long long)n, what);
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
