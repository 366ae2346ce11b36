/* whole.c - functions that look at more than one lane, in all their forms, against their
 * definitions.
 *   functional_whole [SEED] */
#include <stdio.h>
#include <stdlib.h>

#include "ascsim.h"
#include "expect.h"
#include "schedule.h"

void whole_kernel(void); /* whole_kernels.c */

enum { ROUNDS = 64 };

#define COMPARE(function, T, ...)                                   \
    static int holds_##function##_##T(long double a, long double b) \
    {                                                               \
        return __VA_ARGS__;                                         \
    }
#define IGNORE(...)
#define REDUCE IGNORE
#define SELECT IGNORE
#define BRCB IGNORE
#define GATHER IGNORE
#define GATHER_DATABLOCK IGNORE
#define COMPACT IGNORE
#define TRANSPOSE IGNORE
#define BITSORT IGNORE
#define MRGSORT4 IGNORE
#include "whole.inc"
#undef COMPARE
#undef REDUCE
#undef SELECT
#undef BRCB
#undef GATHER
#undef GATHER_DATABLOCK
#undef COMPACT
#undef TRANSPOSE
#undef BITSORT
#undef MRGSORT4

const whole_function whole_functions[WHOLE_FUNCTIONS] = {
#define REDUCE(function, T, operation, result) \
    {#function "(" #T ")", T_##T, NULL, expect_reduce, operation, result, NULL},
#define COMPARE(function, T, ...)                                                \
    {#function "(" #T ")",  T_##T, prepare_compare, expect_compare, SUM, BLOCKS, \
     holds_##function##_##T},
#define ROW(name, T, prepare, expect) {name "(" #T ")", T_##T, prepare, expect, SUM, BLOCKS, NULL},
#define SELECT(T) ROW("asc_select", T, NULL, expect_select)
#define BRCB(T) ROW("asc_brcb", T, prepare_strided, expect_brcb)
#define GATHER(T) ROW("asc_gather", T, prepare_gather, expect_gather)
#define GATHER_DATABLOCK(T) \
    ROW("asc_gather_datablock", T, prepare_gather_datablock, expect_gather_datablock)
#define COMPACT(T) ROW("asc_reduce", T, prepare_compact, expect_compact)
#define TRANSPOSE(T) ROW("asc_transpose", T, prepare_strided, expect_transpose)
#define BITSORT(T) ROW("asc_bitsort", T, prepare_bitsort, expect_bitsort)
#define MRGSORT4(T) ROW("asc_mrgsort4", T, prepare_mrgsort4, expect_mrgsort4)
#include "whole.inc"
};

static void choose(request *r, int function, uint8_t *image)
{
    const whole_function *f = &whole_functions[function];
    *r = (request){.function = function, .form = random_below(4)};
    r->dst = AT_DST + (uint32_t)(BLOCK * random_below(20));
    r->src0 = AT_SRC0 + (uint32_t)(BLOCK * random_below(20));
    r->src1 = AT_SRC1 + (uint32_t)(BLOCK * random_below(20));
    r->count = 1 + (uint32_t)random_below(500);
    r->repeat = 1 + random_below(6);
    r->block[0] = 1 + random_below(2);
    r->step[0] =
        f->expect == expect_reduce ? 1 + random_below(3) : 8 * r->block[0] + random_below(4);
    for (int i = 1; i < 3; i++) {
        r->block[i] = random_below(4);
        r->step[i] = random_below(20);
    }
    for (int i = 0; i < 2; i++)
        r->mask[i] = random_below(3) ? UINT64_MAX : random_bits() | 1;
    if (r->form == FORM_COUNTER)
        r->mask[0] = 1 + (uint64_t)random_below(6 * REPEAT / size_of(f->type));
    r->value = random_below(5);
    r->reads = f->expect == expect_compact                         ? READ_KEPT
               : f->expect == expect_mrgsort4                      ? READ_MERGED
               : f->expect != expect_reduce || f->result >= BLOCKS ? 0
               : f->operation == SUM                               ? READ_SUM
               : f->operation == MAX                               ? READ_MAX
                                                                   : READ_MIN;
    if (f->prepare)
        f->prepare(r, image);
}

static int compare(const request *r, const uint8_t *found, const uint8_t *expected)
{
    const whole_function *f = &whole_functions[r->function];
    for (int at = 0; at < IMAGE; at++) {
        /* Registers that the call does not set hold what they did. */
        if (at == AT_BACK)
            for (int i = 0; i < 6; i++, at += 4)
                if (memcmp(expected + at, "none", 4) && memcmp(found + at, expected + at, 4) &&
                    (i != 1 || !same_value(f->type, found + at, expected + at, 0))) {
                    printf("%s form %d: register %d differs\n", f->name, r->form, i);
                    return 1;
                }
        const int element = at / size_of(f->type) * size_of(f->type);
        if (found[at] != expected[at] &&
            !same_value(f->type, found + element, expected + element, 0)) {
            printf("%s form %d extra %d: at %d of dst %u: %02x, expected %02x (repeat %d, count "
                   "%u, mask %llx)\n",
                   f->name, r->form, r->extra[0], at, r->dst, found[at], expected[at], r->repeat,
                   r->count, (unsigned long long)r->mask[0]);
            return 1;
        }
    }
    return 0;
}

static int test_function(ascsim *device, int function, request *requests, uint8_t *in, uint8_t *out)
{
    const whole_function *f = &whole_functions[function];
    static uint8_t pool[2 * IMAGE];
    fill_values(pool, sizeof pool, f->type);
    for (int i = 0; i < ROUNDS; i++) {
        memcpy(in + i * IMAGE, pool + BLOCK * random_below(IMAGE / BLOCK), IMAGE);
        choose(&requests[i], function, in + i * IMAGE);
    }
    const ascsim_arg args[] = {ASCSIM_POINTER(requests), ASCSIM_POINTER(in), ASCSIM_POINTER(out)};
    if (ascsim_launch(device, f->name, whole_kernel, ROUNDS, args, 3)) {
        printf("%s: %s\n", f->name, ascsim_error());
        return 1;
    }
    int wrong = 0;
    static uint8_t expected[IMAGE];
    for (int i = 0; i < ROUNDS; i++) {
        memcpy(expected, in + i * IMAGE, IMAGE);
        for (int k = 0; k < 6; k++)
            memcpy(expected + AT_BACK + 4 * k, "none", 4);
        f->expect(&requests[i], expected);
        wrong += compare(&requests[i], out + i * IMAGE, expected);
    }
    return wrong;
}

int main(int argc, char **argv)
{
    random_seed(argc > 1 ? strtoull(argv[1], NULL, 0) : 1);
    int wrong = 0;
    for (uint64_t schedule = 0; schedule < 2; schedule++)
        wrong += test_functions(&(ascsim_options){.seed = schedule, .timing = ASCSIM_TIME_NONE},
                                WHOLE_FUNCTIONS, ROUNDS, test_function);
    printf("%d functions, %d calls each, %d wrong\n", WHOLE_FUNCTIONS, 2 * ROUNDS, wrong);
    return wrong != 0;
}
