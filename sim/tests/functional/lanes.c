/* lanes.c - every lane-by-lane function in all its forms, on random masks, strides, repeats and
 * tails, against its definition computed one lane at a time. All of UB is compared: what is not
 * selected must keep what it held.
 *   functional [SEED] */
#include "lanes.h"

#include <stdio.h>
#include <stdlib.h>

#include "ascsim.h"
#include "schedule.h"
#include "value.h"

void lane_kernel(void); /* lanes_kernels.c */

enum { ROUNDS = 16, BLOCK = 32 };
enum { AREA = IMAGE / 3, AT_DST = 0, AT_SRC0 = AREA, AT_SRC1 = 2 * AREA };

typedef struct lane_function {
    const char *name;
    type_id to, from;
    int sources, units, saturate, with_value;
    rounding how;
    long double (*meaning)(long double a, long double b, long double old, long double v);
} lane_function;

static int unfused;

/* a b + c: fused, the sum is rounded to float once; else the product is rounded to the type before
 * it. */
static long double product_sum(type_id type, long double a, long double b, long double c)
{
    long double product = a * b;
    uint32_t bits = 0;
    if (unfused) {
        put_value(type, &bits, product, RN, 1);
        product = get_value(type, &bits);
    } else if (type == T_float) {
        return (float)((double)product + (double)c);
    }
    return (float)(product + c);
}

#define MEANING(function, D, S, ...)                                                              \
    static long double mean_##function##_##D##_##S(long double a, long double b, long double old, \
                                                   long double value)                             \
    {                                                                                             \
        const __typeof__(VALUE_TYPE) v = (__typeof__(VALUE_TYPE))value;                           \
        (void)a, (void)b, (void)old, (void)v;                                                     \
        return __VA_ARGS__;                                                                       \
    }
#define VALUE_TYPE 1.0L
#define BINARY MEANING
#define UNARY MEANING
#define NEAR MEANING
#define VALUED MEANING
#define CONVERT(function, D, S, how) MEANING(function, D, S, a)
#define FILLED(function, D) MEANING(function, D, D, v)
#define SHIFTED(function, D, S, ...)
#include "lanes.inc"
#undef BINARY
#undef UNARY
#undef NEAR
#undef VALUED
#undef CONVERT
#undef FILLED
#undef SHIFTED
#undef VALUE_TYPE
#define VALUE_TYPE 1
#define IGNORE(...)
#define BINARY IGNORE
#define UNARY IGNORE
#define NEAR IGNORE
#define VALUED IGNORE
#define CONVERT IGNORE
#define FILLED IGNORE
#define SHIFTED MEANING
#include "lanes.inc"
#undef BINARY
#undef UNARY
#undef NEAR
#undef VALUED
#undef CONVERT
#undef FILLED
#undef SHIFTED

#define ROW(function, D, S, sources, units, saturate, with_value, how)                      \
    {#function "(" #D ", " #S ")", T_##D, T_##S, sources, units, saturate, with_value, how, \
     mean_##function##_##D##_##S},
static const lane_function functions[] = {
#define BINARY(function, D, S, ...) ROW(function, D, S, 2, 0, 0, 0, RN)
#define UNARY(function, D, S, ...) ROW(function, D, S, 1, 0, 0, 0, RN)
#define NEAR(function, D, S, ...) ROW(function, D, S, 1, 1, 0, 0, RN)
#define VALUED(function, D, S, ...) ROW(function, D, S, 1, 0, 0, 1, RN)
#define SHIFTED(function, D, S, ...) ROW(function, D, S, 1, 0, 0, 2, RN)
#define CONVERT(function, D, S, how) ROW(function, D, S, 1, 0, 1, 0, how)
#define FILLED(function, D) ROW(function, D, D, 0, 0, 0, 1, RN)
#include "lanes.inc"
};

static void choose_strides(request *r, const lane_function *f, int lanes)
{
    const int to_blocks = lanes * size_of(f->to) / BLOCK;
    r->repeat = 1 + random_below(6);
    r->block[0] = 1 + random_below(3);
    r->step[0] = to_blocks * r->block[0] + random_below(4);
    for (int i = 1; i < 3; i++) {
        r->block[i] = random_below(4);
        r->step[i] = random_below(20);
    }
    if (random_below(4) == 0) /* as most kernels have them */
        for (int i = 0; i < 3; i++) {
            r->block[i] = 1;
            r->step[i] = lanes * size_of(i ? f->from : f->to) / BLOCK;
        }
}

static void choose(request *r, int function)
{
    static const uint64_t all = UINT64_MAX;
    const lane_function *f = &functions[function];
    const int wider = size_of(f->to) > size_of(f->from) ? size_of(f->to) : size_of(f->from);
    const int lanes = 256 / wider;
    *r = (request){.function = function, .form = random_below(4)};
    r->dst = AT_DST + (uint32_t)(BLOCK * random_below(20));
    r->src0 = AT_SRC0 + (uint32_t)(BLOCK * random_below(20));
    r->src1 = AT_SRC1 + (uint32_t)(BLOCK * random_below(20));
    r->count = 1 + (uint32_t)random_below(500);
    choose_strides(r, f, lanes);
    for (int i = 0; i < 2; i++)
        r->mask[i] = random_below(3) ? all : random_bits();
    if (r->form == FORM_COUNTER)
        r->mask[0] = 1 + (uint64_t)random_below(6 * lanes);
    r->value = f->with_value == 2 ? random_below(8 * size_of(f->from))
               : f->from == T_uint16_t || f->from == T_uint32_t
                   ? random_below(60000)
                   : (random_below(2001) - 1000) * 0.125;
    if (f->to == f->from && random_below(5) == 0) { /* in place */
        r->dst = r->src0;
        r->block[1] = r->block[0];
        r->step[1] = r->step[0];
    }
}

static int selected(const request *r, int lanes, int step, int lane)
{
    const int64_t index = (int64_t)step * lanes + lane;
    if (r->form == FORM_COUNT || r->form == FORM_SYNC)
        return index < r->count;
    if (r->form == FORM_COUNTER)
        return index < (int64_t)r->mask[0];
    return r->mask[lane / 64] >> (lane % 64) & 1;
}

/* Where a lane of operand i lies. */
static uint8_t *lane_at(uint8_t *image, const request *r, int i, int size, int lanes, int step,
                        int lane)
{
    const uint32_t base = i == 0 ? r->dst : i == 1 ? r->src0 : r->src1;
    const int counted = r->form == FORM_COUNT || r->form == FORM_SYNC;
    const int block = counted ? 1 : r->block[i];
    const int stride = counted ? lanes * size / BLOCK : r->step[i];
    const int byte = lane * size;
    return image + base + stride * BLOCK * step + byte / BLOCK * block * BLOCK + byte % BLOCK;
}

static void expect(uint8_t *image, const request *r)
{
    const lane_function *f = &functions[r->function];
    const int to = size_of(f->to), from = size_of(f->from), lanes = 256 / (to > from ? to : from);
    const int64_t total = r->form == FORM_REPEAT    ? (int64_t)r->repeat * lanes
                          : r->form == FORM_COUNTER ? (int64_t)r->mask[0]
                                                    : r->count;
    long double value = r->value;
    if (f->with_value == 1) {
        uint64_t bits = 0;
        put_value(f->from, &bits, value, is_integer(f->from) ? RZ : RN, 0);
        value = get_value(f->from, &bits);
    }
    for (int step = 0; (int64_t)step * lanes < total; step++) {
        long double result[256];
        for (int k = 0; k < lanes; k++) {
            const long double a =
                f->sources > 0 && selected(r, lanes, step, k)
                    ? get_value(f->from, lane_at(image, r, 1, from, lanes, step, k))
                    : 0;
            const long double b =
                f->sources > 1 && selected(r, lanes, step, k)
                    ? get_value(f->from, lane_at(image, r, 2, from, lanes, step, k))
                    : 0;
            result[k] =
                f->meaning(a, b, get_value(f->to, lane_at(image, r, 0, to, lanes, step, k)), value);
        }
        for (int k = 0; k < lanes && f->saturate && f->to == f->from; k++) /* float2float */
            result[k] = round_integer(result[k], f->how);
        for (int k = 0; k < lanes; k++)
            if (selected(r, lanes, step, k))
                put_value(f->to, lane_at(image, r, 0, to, lanes, step, k), result[k], f->how,
                          f->saturate);
    }
}

static int compare(const request *r, const uint8_t *before, const uint8_t *found,
                   const uint8_t *expected)
{
    const lane_function *f = &functions[r->function];
    const int size = size_of(f->to);
    for (int at = 0; at < IMAGE; at += size)
        if (memcmp(found + at, expected + at, (size_t)size) &&
            !same_value(f->to, found + at, expected + at, f->units)) {
            printf("%s form %d: at %d of dst %u: %Lg, expected %Lg, was %Lg (repeat %d, count %u, "
                   "mask %llx)\n",
                   f->name, r->form, at, r->dst, get_value(f->to, found + at),
                   get_value(f->to, expected + at), get_value(f->to, before + at), r->repeat,
                   r->count, (unsigned long long)r->mask[0]);
            return 1;
        }
    return 0;
}

/* Runs the requests on their images and compares all of them. */
static int run(ascsim *device, const lane_function *f, request *requests, uint8_t *in, uint8_t *out)
{
    const ascsim_arg args[] = {ASCSIM_POINTER(requests), ASCSIM_POINTER(in), ASCSIM_POINTER(out)};
    if (ascsim_launch(device, f->name, lane_kernel, ROUNDS, args, 3)) {
        printf("%s: %s\n", f->name, ascsim_error());
        return 1;
    }
    int wrong = 0;
    static uint8_t expected[IMAGE];
    for (int i = 0; i < ROUNDS; i++) {
        memcpy(expected, in + i * IMAGE, IMAGE);
        expect(expected, &requests[i]);
        wrong += compare(&requests[i], in + i * IMAGE, out + i * IMAGE, expected);
    }
    return wrong;
}

/* All 65536 inputs of a function of one operand of 16 bits. */
static int test_exhaustively(ascsim *device, int function, request *requests, uint8_t *in,
                             uint8_t *out)
{
    enum { EACH = 65536 / ROUNDS };
    for (int i = 0; i < ROUNDS; i++) {
        requests[i] = (request){.function = function, .form = FORM_COUNT, .count = EACH};
        requests[i].dst = AT_DST;
        requests[i].src0 = AT_SRC0;
        for (int k = 0; k < EACH; k++) {
            const uint16_t bits = (uint16_t)(i * EACH + k);
            memcpy(in + i * IMAGE + AT_SRC0 + 2 * k, &bits, sizeof bits);
        }
    }
    return run(device, &functions[function], requests, in, out);
}

static int test_function(ascsim *device, int function, request *requests, uint8_t *in, uint8_t *out)
{
    const lane_function *f = &functions[function];
    static uint8_t to[2 * AREA], from[4 * AREA];
    fill_values(to, sizeof to, f->to);
    fill_values(from, sizeof from, f->from);
    for (int i = 0; i < ROUNDS; i++) {
        uint8_t *image = in + i * IMAGE;
        choose(&requests[i], function);
        memcpy(image + AT_DST, to + BLOCK * random_below(AREA / BLOCK), AREA);
        memcpy(image + AT_SRC0, from + BLOCK * random_below(2 * AREA / BLOCK), 2 * AREA);
    }
    const int exhaustive = f->sources == 1 && size_of(f->from) == 2 && !f->with_value;
    return run(device, f, requests, in, out) +
           (exhaustive ? test_exhaustively(device, function, requests, in, out) : 0);
}

int main(int argc, char **argv)
{
    const uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    int wrong = 0;
    for (uint64_t schedule = 0; schedule < 2; schedule++) {
        unfused = (int)schedule;
        random_seed(seed + schedule);
        wrong += test_functions(
            &(ascsim_options){.seed = schedule, .unfused = unfused, .timing = ASCSIM_TIME_NONE},
            LANE_FUNCTIONS, ROUNDS, test_function);
    }
    printf("%d functions, %d calls each, %d wrong\n", LANE_FUNCTIONS, 2 * ROUNDS, wrong);
    return wrong != 0;
}
