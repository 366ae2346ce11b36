/* tools/tigon/problem/element.c - elements of all types as double, rounded once. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "parts.h"

/* The float nearest to v, or one of its neighbours that remembers that v is not exact (round to
 * odd): rounding it again, to fewer bits, gives what rounding v once would give. */
static uint32_t to_odd(double v)
{
    const float f = (float)v;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if ((double)f == v || v != v || isinf(v))
        return bits;
    if (isinf(f) || fabs((double)f) > fabs(v))
        bits--;
    return bits | 1;
}

static uint16_t to_bf16(double v)
{
    if (v != v)
        return 0x7fc0;
    const uint32_t bits = to_odd(v);
    if (isinf(v))
        return (uint16_t)(bits >> 16);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static uint16_t to_f16(double v)
{
    const uint16_t sign = signbit(v) ? 0x8000 : 0;
    const double a = fabs(v);
    if (v != v)
        return 0x7e00;
    if (a >= 65520)
        return sign | 0x7c00;
    if (a < 0x1p-14) /* subnormal: multiples of 2^-24 */
        return sign | (uint16_t)nearbyint(a * 0x1p24);
    uint32_t bits = to_odd(a);
    bits += 0xfff + (bits >> 13 & 1);
    return sign | (uint16_t)((bits >> 13) - (112 << 10));
}

static double from_f16(uint16_t h)
{
    const int exponent = h >> 10 & 31, mantissa = h & 1023;
    const double sign = h & 0x8000 ? -1 : 1;
    if (exponent == 31)
        return mantissa ? (double)NAN : sign * (double)INFINITY;
    if (!exponent)
        return sign * mantissa * 0x1p-24;
    const uint64_t bits = (uint64_t)(exponent - 25 + 1023) << 52; /* 2^(exponent - 25) */
    double power;
    memcpy(&power, &bits, sizeof power);
    return sign * (1024 + mantissa) * power;
}

/* E4M3: its numbers are those of f16 times 2^8, with 7 bits less and without an infinity. */
static double from_e4m3(unsigned char code)
{
    const uint16_t h = (uint16_t)((code & 128) << 8 | (code & 127) << 7);
    return (code & 127) == 127 ? (double)NAN : from_f16(h) * 0x1p8;
}

static unsigned char to_e4m3(double v)
{
    if (v != v)
        return 127;
    unsigned char low = 0, high = 126; /* the codes of positive numbers ascend with them */
    while (low < high) {
        const unsigned char mid = (unsigned char)((low + high) / 2);
        const double border = (from_e4m3(mid) + from_e4m3(mid + 1)) / 2;
        if (fabs(v) > border || (fabs(v) == border && mid % 2))
            low = mid + 1;
        else
            high = mid;
    }
    return (unsigned char)(low | (signbit(v) ? 128 : 0));
}

double pb_load(int type, const void *at)
{
    if (type == TG_F32) {
        float f;
        memcpy(&f, at, sizeof f);
        return f;
    }
    if (type == TG_F64) {
        double d;
        memcpy(&d, at, sizeof d);
        return d;
    }
    if (type == TG_I64) {
        int64_t i;
        memcpy(&i, at, sizeof i);
        return (double)i;
    }
    if (type == TG_I32) {
        int32_t i;
        memcpy(&i, at, sizeof i);
        return i;
    }
    if (type == TG_U8 || type == TG_BOOL)
        return *(const unsigned char *)at;
    if (type == TG_F8E4M3)
        return from_e4m3(*(const unsigned char *)at);
    uint16_t h;
    memcpy(&h, at, sizeof h);
    if (type == TG_F16)
        return from_f16(h);
    const uint32_t bits = (uint32_t)h << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

void pb_store(int type, void *at, double value)
{
    if (type == TG_F32) {
        const float f = (float)value;
        memcpy(at, &f, sizeof f);
    } else if (type == TG_F64) {
        memcpy(at, &value, sizeof value);
    } else if (type == TG_I64) {
        const int64_t i = (int64_t)value;
        memcpy(at, &i, sizeof i);
    } else if (type == TG_I32) {
        const int32_t i = (int32_t)value;
        memcpy(at, &i, sizeof i);
    } else if (type == TG_U8 || type == TG_BOOL) {
        *(unsigned char *)at = (unsigned char)value;
    } else if (type == TG_F8E4M3) {
        *(unsigned char *)at = to_e4m3(value);
    } else {
        const uint16_t h = type == TG_F16 ? to_f16(value) : to_bf16(value);
        memcpy(at, &h, sizeof h);
    }
}

double pb_round(int type, double value)
{
    unsigned char bytes[8];
    pb_store(type, bytes, value);
    return pb_load(type, bytes);
}

int pb_is_integer(const pb_decl *d)
{
    return !d->symbol && d->type == TG_I64;
}

/* Where element i of the shape lies. */
static char *address(const pb_tensor *t, int64_t i)
{
    int64_t offset = 0;
    for (int d = t->view.ndim - 1; d >= 0; d--) {
        offset += i % t->shape[d] * t->strides[d];
        i /= t->shape[d];
    }
    return (char *)t->view.data + t->view.byte_offset +
           offset * (int64_t)tg_type_size(tg_type_of(&t->view));
}

double pb_get(const pb_tensor *t, int64_t i)
{
    return pb_load(tg_type_of(&t->view), address(t, i));
}

void pb_set(const pb_tensor *t, int64_t i, double value)
{
    pb_store(tg_type_of(&t->view), address(t, i), value);
}

void pb_each_row(const pb_tensor *t, pb_row_fn fn, void *arg)
{
    const int64_t n = tg_numel(&t->view);
    const int last = t->view.ndim - 1;
    const int64_t cols = last < 0 || t->strides[last] != 1 ? 1 : t->shape[last];
    for (int64_t i = 0; i < n; i += cols)
        fn(arg, address(t, i), i, cols);
}

typedef struct transfer {
    int type;
    size_t size;
    double *x;
} transfer;

static void read_row(void *arg, char *row, int64_t first, int64_t cols)
{
    const transfer *t = arg;
    for (int64_t i = 0; i < cols; i++)
        t->x[first + i] = pb_load(t->type, row + (size_t)i * t->size);
}

static void write_row(void *arg, char *row, int64_t first, int64_t cols)
{
    const transfer *t = arg;
    for (int64_t i = 0; i < cols; i++)
        pb_store(t->type, row + (size_t)i * t->size, t->x[first + i]);
}

void pb_read(const pb_tensor *t, double *x)
{
    const int type = tg_type_of(&t->view);
    pb_each_row(t, read_row, &(transfer){type, tg_type_size(type), x});
}

void pb_write(const pb_tensor *t, const double *x)
{
    const int type = tg_type_of(&t->view);
    pb_each_row(t, write_row, &(transfer){type, tg_type_size(type), (double *)x});
}

static void copy_row(void *arg, char *row, int64_t first, int64_t cols)
{
    const pb_tensor *const *both = arg, *to = both[0], *from = both[1];
    const int type = tg_type_of(&to->view), from_type = tg_type_of(&from->view);
    const size_t size = tg_type_size(type);
    const char *x = address(from, first);
    const int64_t step = cols > 1 ? address(from, first + 1) - x : 0;
    for (int64_t i = 0; i < cols; i++)
        pb_store(type, row + (size_t)i * size, pb_load(from_type, x + i * step));
}

void pb_copy(const pb_tensor *to, const pb_tensor *from)
{
    const pb_tensor *both[] = {to, from};
    pb_each_row(to, copy_row, both);
}
