/* Checks that operators are made of, views, and elements for ref. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/core.h"

static const struct {
    int type;
    const char *name;
} types[] = {{TG_F32, "f32"}, {TG_BF16, "bf16"}, {TG_F16, "f16"}, {TG_F64, "f64"},
             {TG_I64, "i64"}, {TG_I32, "i32"},   {TG_U8, "u8"},   {TG_BOOL, "bool"}};

const char *tg_type_name(int type)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].type == type)
            return types[i].name;
    return "?";
}

tg_words tg_type_words(int type)
{
    tg_words w;
    const unsigned code = (unsigned)type & 255, bits = (unsigned)type >> 8 & 255;
    const unsigned lanes = (unsigned)type >> 16;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].type == type) {
            snprintf(w.text, sizeof w.text, "%s", types[i].name);
            return w;
        }
    snprintf(w.text, sizeof w.text, "(code %u, %u bits, %u lane%s)", code, bits, lanes,
             lanes == 1 ? "" : "s");
    return w;
}

int tg_type_by_name(const char *name)
{
    for (size_t i = 0; name && i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, name) == 0)
            return types[i].type;
    return 0;
}

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

/* ---- element types ---- */

tg_status tg_refuse_float(const char *op, const char *name, const tg_tensor *t)
{
    if (!t)
        return TG_OK;
    const int type = tg_type_of(t);
    if (type == TG_F32 || type == TG_BF16 || type == TG_F16 || type == TG_F64)
        return TG_OK;
    return tg_fail(TG_EINVAL, "%s: %s is of type %s, expected f32, bf16 or f16", op, name,
                   tg_type_words(type).text);
}

tg_status tg_refuse_type(const char *op, const char *name, const tg_tensor *t, int type)
{
    if (!t || tg_type_of(t) == type)
        return TG_OK;
    return tg_fail(TG_EINVAL, "%s: %s is of type %s, expected %s", op, name,
                   tg_type_words(tg_type_of(t)).text, tg_type_name(type));
}

tg_status tg_refuse_type_or_f32(const char *op, const char *name, const tg_tensor *t, int type)
{
    if (!t || tg_type_of(t) == type || (tg_type_of(t) == TG_F32 && type != TG_F64))
        return TG_OK;
    return tg_fail(TG_EINVAL, "%s: %s is of type %s, expected %s%s", op, name,
                   tg_type_words(tg_type_of(t)).text, tg_type_name(type),
                   type == TG_F64 || type == TG_F32 ? "" : " or f32");
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

/* ---- views ---- */

tg_rows tg_rows_of(const tg_tensor *t)
{
    tg_rows r = {0};
    if (!t)
        return r;
    r.data = tg_data(t);
    r.type = tg_type_of(t);
    r.n = t->ndim ? t->shape[t->ndim - 1] : 1;
    r.rows = 1;
    r.stride = r.n;
    for (int i = t->ndim - 2; i >= 0; i--) {
        if (t->strides && t->shape[i] > 1 && r.rows == 1)
            r.stride = t->strides[i];
        r.rows *= t->shape[i];
    }
    return r;
}

/* Leading dimensions from the last one on, in groups that have one stride each: the sizes and strides of the
 * first two. Returns how many groups there are. */
static int groups_of(const tg_tensor *t, int64_t size[2], int64_t stride[2])
{
    int groups = 0;
    size[0] = size[1] = 1;
    stride[0] = stride[1] = 0;
    for (int i = t->ndim - 2; i >= 0; i--) {
        const int64_t n = t->shape[i], step = tg_stride(t, i);
        if (n == 1)
            continue;
        const int k = groups - 1;
        if (groups > 0 && groups <= 2 && step == size[k] * stride[k]) {
            size[k] *= n;
        } else if (groups < 2) {
            size[groups] = n;
            stride[groups++] = step;
        } else
            groups++;
    }
    return groups;
}

int tg_planes_collapse(const tg_tensor *t)
{
    int64_t size[2], stride[2];
    return t->ndim > 0 && (!t->strides || tg_numel(t) == 0 || groups_of(t, size, stride) <= 2);
}

tg_planes tg_planes_of(const tg_tensor *t)
{
    if (!t)
        return (tg_planes){0};
    int64_t size[2], stride[2];
    groups_of(t, size, stride);
    const int64_t bytes = (int64_t)tg_type_size(tg_type_of(t));
    tg_planes p = {.data = tg_data(t), .type = tg_type_of(t), .rows = 1, .n = 1, .inner = size[0]};
    for (int i = 0; i < t->ndim - 1; i++)
        p.rows *= t->shape[i];
    if (t->ndim)
        p.n = t->shape[t->ndim - 1];
    p.stride = p.rows > 1 ? stride[0] * bytes : p.n * bytes;
    p.outer = stride[1] * bytes;
    return p;
}

/* ---- elements ---- */

/* 2^n of a normal double: ldexp() for whom speed counts, with the reference's inner loops. */
static double power_of_2(int n)
{
    const uint64_t bits = (uint64_t)(n + 1023) << 52;
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static double get_f16(uint16_t h)
{
    const int exponent = h >> 10 & 31, mantissa = h & 1023;
    double a;
    if (exponent == 31)
        a = mantissa ? NAN : INFINITY;
    else
        a = exponent ? (1024 + mantissa) * power_of_2(exponent - 25) : mantissa * 0x1p-24;
    return h & 0x8000 ? -a : a;
}

/* Nearest-even rounding of |value| to a binary format of `bits` mantissa bits; the encoding without
 * sign. */
static uint32_t encode(double a, int bits, int min_exponent, int bias, uint32_t infinity)
{
    if (a == 0)
        return 0;
    int exponent = ilogb(a);
    if (exponent < min_exponent)
        exponent = min_exponent;
    const double steps =
        nearbyint(a * power_of_2(bits - exponent)); /* 2^bits and more for normal numbers */
    if (exponent > bias || steps * power_of_2(exponent - bits) >= power_of_2(bias) * 2)
        return infinity;
    const uint32_t mantissa = (uint32_t)steps;
    if (mantissa < 1u << bits) /* subnormal */
        return mantissa;
    return ((uint32_t)(exponent + bias) << bits) + (mantissa - (1u << bits));
}

static uint16_t to_16(double value, int bits, int bias)
{
    const uint32_t infinity = (uint32_t)(2 * bias + 1) << bits;
    const uint32_t sign = signbit(value) ? 0x8000u : 0;
    if (isnan(value))
        return (uint16_t)(sign | infinity | 1u << (bits - 1));
    const double a = fabs(value);
    return (uint16_t)(sign | (isinf(a) ? infinity : encode(a, bits, 1 - bias, bias, infinity)));
}

double tg_get_narrow(const void *data, int type, int64_t i)
{
    if (type == TG_I64)
        return (double)((const int64_t *)data)[i];
    if (type == TG_I32)
        return ((const int32_t *)data)[i];
    if (type == TG_U8 || type == TG_BOOL)
        return ((const uint8_t *)data)[i];
    const uint16_t h = ((const uint16_t *)data)[i];
    if (type == TG_F16)
        return get_f16(h);
    const uint32_t bits = (uint32_t)h << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

void tg_set(void *data, int type, int64_t i, double value)
{
    if (type == TG_F32)
        ((float *)data)[i] = (float)value;
    else if (type == TG_F64)
        ((double *)data)[i] = value;
    else if (type == TG_I64)
        ((int64_t *)data)[i] = (int64_t)value;
    else if (type == TG_I32)
        ((int32_t *)data)[i] = (int32_t)value;
    else if (type == TG_U8 || type == TG_BOOL)
        ((uint8_t *)data)[i] = (uint8_t)value;
    else
        ((uint16_t *)data)[i] = type == TG_F16 ? to_16(value, 10, 15) : to_16(value, 7, 127);
}
