/* reduce.c - what reductions, comparisons and selection mean. */
#include "expect.h"

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

void expect_reduce(const request *r, uint8_t *image)
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

void prepare_compare(request *r, uint8_t *image)
{
    (void)image;
    r->extra[0] = random_below(3);
    if (r->form == FORM_COUNT || r->form == FORM_SYNC) /* there is none */
        r->form = FORM_REPEAT;
}

void expect_compare(const request *r, uint8_t *image)
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

void expect_select(const request *r, uint8_t *image)
{
    const call c = describe(r);
    for (int step = 0; step < c.steps; step++)
        for (int k = 0; k < c.lanes; k++)
            if (selected(r, &c, step, k))
                memcpy(lane_at(r, &c, image, 0, step, k),
                       lane_at(r, &c, image, image[AT_BITS + k / 8] >> k % 8 & 1 ? 1 : 2, step, k),
                       (size_t)c.size);
}
