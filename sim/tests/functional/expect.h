/* expect.h - what the functions of whole.inc mean, for their tests. */
#ifndef FUNCTIONAL_EXPECT_H
#define FUNCTIONAL_EXPECT_H

#include "value.h"
#include "whole.h"

enum { BLOCK = 32, REPEAT = 256, RECORD = 8 };
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

extern const whole_function whole_functions[WHOLE_FUNCTIONS];

/* What a call reads and writes. */
typedef struct call {
    const whole_function *f;
    int size, lanes, steps, counted;
    int64_t count; /* -1: the mask selects */
} call;

static inline call describe(const request *r)
{
    call c = {.f = &whole_functions[r->function]};
    c.size = size_of(c.f->type);
    c.lanes = REPEAT / c.size;
    c.counted = r->form == FORM_COUNT || r->form == FORM_SYNC;
    c.count = c.counted ? (int64_t)r->count : r->form == FORM_COUNTER ? (int64_t)r->mask[0] : -1;
    c.steps = c.count < 0 ? r->repeat : (int)((c.count + c.lanes - 1) / c.lanes);
    return c;
}

static inline int selected(const request *r, const call *c, int step, int lane)
{
    return c->count >= 0 ? (int64_t)step * c->lanes + lane < c->count
                         : (int)(r->mask[lane / 64] >> (lane % 64) & 1);
}

static inline uint8_t *lane_at(const request *r, const call *c, uint8_t *image, int i, int step,
                               int lane)
{
    const uint32_t base = i == 0 ? r->dst : i == 1 ? r->src0 : r->src1;
    const int byte = lane * c->size;
    return image + base + (c->counted ? 8 : r->step[i]) * BLOCK * step +
           byte / BLOCK * (c->counted ? 1 : r->block[i]) * BLOCK + byte % BLOCK;
}

/* prepare: a request and an image that suit the function; expect: what the image becomes. */
void expect_reduce(const request *r, uint8_t *image);
void prepare_compare(request *r, uint8_t *image);
void expect_compare(const request *r, uint8_t *image);
void expect_select(const request *r, uint8_t *image);
void prepare_strided(request *r, uint8_t *image);
void expect_brcb(const request *r, uint8_t *image);
void prepare_gather(request *r, uint8_t *image);
void prepare_gather_datablock(request *r, uint8_t *image);
void expect_gather(const request *r, uint8_t *image);
void expect_gather_datablock(const request *r, uint8_t *image);
void prepare_compact(request *r, uint8_t *image);
void expect_compact(const request *r, uint8_t *image);
void expect_transpose(const request *r, uint8_t *image);
void prepare_bitsort(request *r, uint8_t *image);
void expect_bitsort(const request *r, uint8_t *image);
void prepare_mrgsort4(request *r, uint8_t *image);
void expect_mrgsort4(const request *r, uint8_t *image);

#endif
