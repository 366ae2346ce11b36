/* functional_whole.c - functions that look at more than one lane, in all their forms, against their definitions.
 *   functional_whole [SEED]
 */
#include <stdio.h>
#include <stdlib.h>

#include "ascsim.h"
#include "functional_value.h"
#include "functional_whole.h"

void whole_kernel(void); /* functional_whole_kernels.c */

enum { ROUNDS = 64, BLOCK = 32, REPEAT = 256, RECORD = 8 };
typedef enum operation { SUM, MAX, MIN } operation;
typedef enum result { VALUE_INDEX, INDEX_VALUE, ONLY_VALUE, ONLY_INDEX, BLOCKS, PAIRS } result;

typedef struct whole_function {
    const char *name;
    type_id type;
    void (*prepare)(request *r, uint8_t *image);
    void (*expect)(const request *r, uint8_t *image);
    operation operation;
    result result;
    int (*holds)(long double a, long double b);
} whole_function;

static const whole_function functions[WHOLE_FUNCTIONS];

/* What a call reads and writes. */
typedef struct call {
    const whole_function *f;
    int size, lanes, steps, counted;
    int64_t count; /* -1: the mask selects */
} call;

static call describe(const request *r)
{
    call c = {.f = &functions[r->function]};
    c.size = size_of(c.f->type);
    c.lanes = REPEAT / c.size;
    c.counted = r->form == FORM_COUNT || r->form == FORM_SYNC;
    c.count = c.counted ? (int64_t)r->count : r->form == FORM_COUNTER ? (int64_t)r->mask[0] : -1;
    c.steps = c.count < 0 ? r->repeat : (int)((c.count + c.lanes - 1) / c.lanes);
    return c;
}

static int selected(const request *r, const call *c, int step, int lane)
{
    return c->count >= 0 ? (int64_t)step * c->lanes + lane < c->count
                         : (int)(r->mask[lane / 64] >> (lane % 64) & 1);
}

static uint8_t *lane_at(const request *r, const call *c, uint8_t *image, int i, int step, int lane)
{
    const uint32_t base = i == 0 ? r->dst : i == 1 ? r->src0 : r->src1;
    const int byte = lane * c->size;
    return image + base + (c->counted ? 8 : r->step[i]) * BLOCK * step +
           byte / BLOCK * (c->counted ? 1 : r->block[i]) * BLOCK + byte % BLOCK;
}

/* ---- reductions ---- */

typedef struct partial {
    long double value;
    int present, index;
} partial;

static partial join(const whole_function *f, partial a, partial b)
{
    if (f->operation == SUM) { /* who takes no part adds nothing; every level rounds */
        uint32_t bits = 0;
        put_value(f->type, &bits, (a.present ? a.value : -0.0L) + (b.present ? b.value : -0.0L), RN,
                  1);
        return (partial){get_value(f->type, &bits), a.present || b.present, 0};
    }
    if (!a.present || !b.present)
        return a.present ? a : b;
    if (isnan(a.value) || isnan(b.value))
        return isnan(a.value) ? a : b;
    return (f->operation == MAX ? b.value > a.value : b.value < a.value) ? b : a;
}

/* A tree of neighbours. */
static partial join_all(const whole_function *f, const partial *lanes, int count)
{
    if (count == 1)
        return lanes[0];
    return join(f, join_all(f, lanes, count / 2), join_all(f, lanes + count / 2, count / 2));
}

static void put_result(const call *c, uint8_t *to, partial p)
{
    const uint32_t index = (uint32_t)p.index;
    switch (c->f->result) {
    case VALUE_INDEX:
        put_value(c->f->type, to, p.value, RN, 1);
        memcpy(to + c->size, &index, (size_t)c->size);
        break;
    case INDEX_VALUE:
        memcpy(to, &index, (size_t)c->size);
        put_value(c->f->type, to + c->size, p.value, RN, 1);
        break;
    case ONLY_INDEX:
        memcpy(to, &index, 4);
        break;
    default:
        put_value(c->f->type, to, p.value, RN, 1);
    }
}

static void expect_reduce(const request *r, uint8_t *image)
{
    const call c = describe(r);
    const result result = c.f->result;
    const int group = result == PAIRS ? 2 : result == BLOCKS ? BLOCK / c.size : c.lanes;
    const int bytes = result <= INDEX_VALUE ? 2 * c.size : result == ONLY_INDEX ? 4 : c.size;
    partial total = {0}, best = {0};
    for (int step = 0; step < c.steps; step++) {
        partial lanes[128];
        for (int k = 0; k < c.lanes; k++) {
            lanes[k] = (partial){.present = selected(r, &c, step, k), .index = k};
            if (lanes[k].present)
                lanes[k].value = get_value(c.f->type, lane_at(r, &c, image, 1, step, k));
        }
        const int results = c.lanes / group;
        for (int g = 0; g < results; g++) {
            partial p = join_all(c.f, lanes + g * group, group);
            uint8_t *to =
                image + r->dst + (step * (c.counted ? 1 : r->step[0]) * results + g) * bytes;
            if (p.present)
                put_result(&c, to, p);
            total = p.present && results == 1 ? join(c.f, total, p) : total;
            p.index += step * c.lanes;
            best = p.present ? join(c.f, best, p) : best;
        }
    }
    if (result >= BLOCKS)
        return;
    uint32_t bits = 0;
    put_value(c.f->type, &bits, total.value, RN, 1);
    if (c.f->operation == SUM)
        memcpy(image + AT_BACK + 4, &bits, 4);
    else
        memcpy(image + AT_BACK + (c.f->operation == MAX ? 8 : 12), &best.index, 4);
}

/* ---- comparisons, selection ---- */

static void prepare_compare(request *r, uint8_t *image)
{
    (void)image;
    r->extra[0] = random_below(3);
    if (r->form == FORM_COUNT || r->form == FORM_SYNC) /* there is none */
        r->form = FORM_REPEAT;
}

static void expect_compare(const request *r, uint8_t *image)
{
    const call c = describe(r);
    uint32_t scalar = 0;
    put_value(c.f->type, &scalar, r->value, RN, 1);
    const int into_mask = r->extra[0] == INTO_MASK;
    uint8_t bits[2048];
    memcpy(bits, image + AT_BITS, 16);
    for (int step = 0; step < (into_mask ? 1 : c.steps); step++)
        for (int k = 0; k < c.lanes; k++) {
            const long double a = get_value(c.f->type, lane_at(r, &c, image, 1, step, k));
            const long double b = get_value(c.f->type, r->extra[0] == WITH_SCALAR
                                                           ? (uint8_t *)&scalar
                                                           : lane_at(r, &c, image, 2, step, k));
            const int at = step * c.lanes + k;
            if (into_mask && !selected(r, &c, step, k))
                continue;
            bits[at / 8] = (uint8_t)((bits[at / 8] & ~(1 << at % 8)) | c.f->holds(a, b) << at % 8);
        }
    memcpy(image + r->dst, bits, into_mask ? 16 : (size_t)(c.steps * c.lanes / 8));
}

static void expect_select(const request *r, uint8_t *image)
{
    const call c = describe(r);
    for (int step = 0; step < c.steps; step++)
        for (int k = 0; k < c.lanes; k++)
            if (selected(r, &c, step, k))
                memcpy(lane_at(r, &c, image, 0, step, k),
                       lane_at(r, &c, image, image[AT_BITS + k / 8] >> k % 8 & 1 ? 1 : 2, step, k),
                       (size_t)c.size);
}

/* ---- rearranging ---- */

static void prepare_strided(request *r, uint8_t *image)
{
    (void)image;
    r->form = FORM_REPEAT;
}

static void expect_brcb(const request *r, uint8_t *image)
{
    const call c = describe(r);
    for (int step = 0; step < r->repeat; step++)
        for (int j = 0; j < 8; j++)
            for (int at = 0; at < BLOCK; at += c.size)
                memcpy(image + r->dst + (step * r->step[0] + j * r->block[0]) * BLOCK + at,
                       image + r->src0 + (step * 8 + j) * c.size, (size_t)c.size);
}

static void prepare_gather(request *r, uint8_t *image)
{
    const call c = describe(r);
    r->block[0] = 1;
    r->step[0] = 8 + random_below(4);
    for (int i = 0; i < 1024; i++) {
        const uint32_t offset = (uint32_t)(random_below(AREA / 2 / c.size) * c.size);
        memcpy(image + r->src1 + i * 4, &offset, 4);
    }
}

static void prepare_gather_datablock(request *r, uint8_t *image)
{
    prepare_gather(r, image);
    r->form = FORM_REPEAT;
    r->block[0] = 1 + random_below(2);
    r->step[0] = 16;
    for (int i = 0; i < 1024; i++) {
        const uint32_t offset = (uint32_t)(random_below(AREA / 2 / BLOCK) * BLOCK);
        memcpy(image + r->src1 + i * 4, &offset, 4);
    }
}

static uint32_t offset_at(const request *r, const uint8_t *image, int i)
{
    uint32_t offset;
    memcpy(&offset, image + r->src1 + i * 4, 4);
    return offset;
}

static void expect_gather(const request *r, uint8_t *image)
{
    const call c = describe(r);
    for (int step = 0; step < c.steps; step++)
        for (int k = 0; k < c.lanes; k++)
            if (selected(r, &c, step, k))
                memcpy(lane_at(r, &c, image, 0, step, k),
                       image + r->src0 + offset_at(r, image, step * c.lanes + k), (size_t)c.size);
}

static void expect_gather_datablock(const request *r, uint8_t *image)
{
    for (int i = 0; i < r->repeat * 8; i++)
        memcpy(image + r->dst + (i / 8 * r->step[0] + i % 8 * r->block[0]) * BLOCK,
               image + r->src0 + offset_at(r, image, i), BLOCK);
}

static void prepare_compact(request *r, uint8_t *image)
{
    (void)image;
    if (r->form == FORM_COUNTER)
        r->form = FORM_REPEAT;
    r->extra[0] = r->form == FORM_REPEAT ? random_below(8) : 0;
    r->block[1] = 1 + random_below(2);
}

static void expect_compact(const request *r, uint8_t *image)
{
    static const char *const patterns[8] = {"", "10", "01", "1000", "0100", "0010", "0001", "1"};
    const call c = describe(r);
    static uint8_t kept[AREA];
    uint32_t count = 0;
    const int steps = c.counted ? c.steps : r->repeat;
    for (int step = 0; step < steps; step++)
        for (int k = 0; k < c.lanes && (!c.counted || selected(r, &c, step, k)); k++) {
            const char *pattern = patterns[r->extra[0]];
            const int bits = step * (c.counted ? c.lanes / 8 : r->step[2] * BLOCK);
            const int keep = r->extra[0] ? pattern[k % (int)strlen(pattern)] == '1'
                                         : image[r->src1 + (uint32_t)(bits + k / 8)] >> k % 8 & 1;
            if (keep)
                memcpy(kept + (int)count++ * c.size, lane_at(r, &c, image, 1, step, k),
                       (size_t)c.size);
        }
    memcpy(image + r->dst, kept, count * (size_t)c.size);
    memcpy(image + AT_BACK, &count, 4);
}

static void expect_transpose(const request *r, uint8_t *image)
{
    for (int i = 0; i < 256; i++)
        memcpy(image + r->dst + (i % 16 * 16 + i / 16) * 2, image + r->src0 + i * 2, 2);
}

/* ---- sorting ---- */

static type_id sorted_type;

static int by_score(const void *a, const void *b)
{
    const long double x = get_value(sorted_type, a), y = get_value(sorted_type, b);
    uint32_t i, j;
    memcpy(&i, (const uint8_t *)a + 4, 4);
    memcpy(&j, (const uint8_t *)b + 4, 4);
    return x != y ? (x < y) - (x > y) : (i > j) - (i < j);
}

/* Scores on a coarse grid, so that many are equal. */
static void put_scores(type_id type, uint8_t *to, int count, int stride)
{
    for (int i = 0; i < count; i++)
        put_value(type, to + i * stride, random_below(40) - 20, RN, 1);
}

static void prepare_bitsort(request *r, uint8_t *image)
{
    const call c = describe(r);
    put_scores(c.f->type, image + r->src0, 32 * r->repeat, c.size);
    for (uint32_t i = 0; i < 32u * (uint32_t)r->repeat; i++)
        memcpy(image + r->src1 + i * 4, &i, 4);
}

static void expect_bitsort(const request *r, uint8_t *image)
{
    const call c = describe(r);
    for (int i = 0; i < 32 * r->repeat; i++) {
        uint8_t *record = image + r->dst + i * RECORD;
        memset(record, 0, RECORD);
        memcpy(record, image + r->src0 + i * c.size, (size_t)c.size);
        memcpy(record + 4, image + r->src1 + i * 4, 4);
    }
    sorted_type = c.f->type;
    for (int step = 0; step < r->repeat; step++)
        qsort(image + r->dst + step * 32 * RECORD, 32, RECORD, by_score);
}

static void prepare_mrgsort4(request *r, uint8_t *image)
{
    const call c = describe(r);
    sorted_type = c.f->type;
    r->extra[5] = 3 | (random_below(2) ? 4 | (random_below(2) ? 8 : 0) : 0);
    r->extra[4] = random_below(2);
    uint8_t *list = image + r->src0;
    uint32_t index = 0;
    for (int i = 0; i < 4; i++) {
        r->extra[i] = 4 * (1 + random_below(20)); /* lists begin at blocks */
        memset(list, 0, (size_t)r->extra[i] * RECORD);
        put_scores(c.f->type, list, r->extra[i], RECORD);
        for (int k = 0; k < r->extra[i]; k++, index++)
            memcpy(list + k * RECORD + 4, &index, 4);
        qsort(list, (size_t)r->extra[i], RECORD, by_score);
        list += r->extra[i] * RECORD;
    }
}

static void expect_mrgsort4(const request *r, uint8_t *image)
{
    const int lists = r->extra[5] == 15 ? 4 : r->extra[5] == 7 ? 3 : 2;
    const uint8_t *first = image + r->src0;
    int records = 0;
    for (int i = 0; i < lists; i++)
        records += r->extra[i];
    /* Equal scores keep the order of lists and of what is in them, which is that of the indices. */
    static uint8_t merged[AREA];
    memcpy(merged, first, (size_t)records * RECORD);
    sorted_type = functions[r->function].type;
    qsort(merged, (size_t)records, RECORD, by_score);
    uint16_t used[4] = {0};
    int written = 0, exhausted = 0;
    for (; written < records && !(exhausted && r->extra[4]); written++) {
        uint32_t index;
        memcpy(&index, merged + written * RECORD + 4, 4);
        int list = 0;
        for (; index >= (uint32_t)r->extra[list]; list++)
            index -= (uint32_t)r->extra[list];
        exhausted = ++used[list] == r->extra[list];
    }
    memcpy(image + r->dst, merged, (size_t)written * RECORD);
    memcpy(image + AT_BACK + 16, used, sizeof used);
}

/* ---- the table ---- */

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
#include "functional_whole.inc"
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

static const whole_function functions[WHOLE_FUNCTIONS] = {
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
#include "functional_whole.inc"
};

static void choose(request *r, int function, uint8_t *image)
{
    const whole_function *f = &functions[function];
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
    const whole_function *f = &functions[r->function];
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
    const whole_function *f = &functions[function];
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
    for (uint64_t schedule = 0; schedule < 2; schedule++) {
        ascsim *device =
            ascsim_open(&(ascsim_options){.seed = schedule, .timing = ASCSIM_TIME_NONE});
        request *requests = ascsim_alloc(device, ROUNDS * sizeof *requests, "requests");
        uint8_t *in = ascsim_alloc(device, ROUNDS * IMAGE, "in"),
                *out = ascsim_alloc(device, ROUNDS * IMAGE, "out");
        if (!requests || !in || !out)
            return fprintf(stderr, "%s\n", ascsim_error()), 1;
        ascsim_written(device, requests, ROUNDS * sizeof *requests);
        ascsim_written(device, in, ROUNDS * IMAGE);
        for (int function = 0; function < WHOLE_FUNCTIONS; function++)
            wrong += test_function(device, function, requests, in, out);
        const ascsim_fault *faults;
        if (ascsim_faults(device, &faults)) {
            ascsim_report_faults(device, stdout);
            wrong++;
        }
        ascsim_close(device);
    }
    printf("%d functions, %d calls each, %d wrong\n", WHOLE_FUNCTIONS, 2 * ROUNDS, wrong);
    return wrong != 0;
}
