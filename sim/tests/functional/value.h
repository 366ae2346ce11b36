/* value.h - numbers of all types as long double, rounded as the definitions say: by trying
 * neighbours, in no way as the model does it. */
#ifndef FUNCTIONAL_VALUE_H
#define FUNCTIONAL_VALUE_H

#include <math.h>
#include <stdint.h>
#include <string.h>

typedef _Float16 half;
typedef struct bfloat16_t {
    uint16_t bits;
} bfloat16_t;

typedef enum rounding { RN, RNA, RD, RU, RZ, RO } rounding;
typedef enum type_id {
    T_half,
    T_float,
    T_bfloat16_t,
    T_int8_t,
    T_uint8_t,
    T_int16_t,
    T_uint16_t,
    T_int32_t,
    T_uint32_t,
    T_int64_t
} type_id;

int size_of(type_id type);
int is_integer(type_id type);
long double get_value(type_id type, const void *from);
/* Half saturates; an integer is cut to its low bits unless `saturate`. */
void put_value(type_id type, void *to, long double value, rounding how, int saturate);
long double round_integer(long double x, rounding how);
/* Both hold the same number (any NaN is a NaN), or numbers `units` places apart. */
int same_value(type_id type, const void *a, const void *b, int units);

void random_seed(uint64_t seed);
uint64_t random_bits(void);
int random_below(int below);
/* Mostly ordinary numbers; some any bits at all, and what rounds badly. */
void fill_values(uint8_t *to, int bytes, type_id type);

static inline long double relu(long double x)
{
    return x > 0 || isnan(x) ? x : 0;
}
/* What int8_t holds of it, from below by relu. */
static inline long double fit8(long double x)
{
    return isnan(x) ? 0 : fminl(rintl(x), 127);
}
/* float subnormals count as 0 */
static inline long double flush(long double x)
{
    return fabsl(x) < 0x1p-126L ? copysignl(0, x) : x;
}
/* Eight binary digits behind the first, nearest. */
long double estimate(long double x);

#endif
