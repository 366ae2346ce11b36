/* rearrange.c - what gathers, compaction and sorting mean. */
#include <stdlib.h>

#include "expect.h"

/* ---- rearranging ---- */

void prepare_strided(request *r, uint8_t *image)
{
    (void)image;
    r->form = FORM_REPEAT;
}

void expect_brcb(const request *r, uint8_t *image)
{
    const call c = describe(r);
    for (int step = 0; step < r->repeat; step++)
        for (int j = 0; j < 8; j++)
            for (int at = 0; at < BLOCK; at += c.size)
                memcpy(image + r->dst + (step * r->step[0] + j * r->block[0]) * BLOCK + at,
                       image + r->src0 + (step * 8 + j) * c.size, (size_t)c.size);
}

void prepare_gather(request *r, uint8_t *image)
{
    const call c = describe(r);
    r->block[0] = 1;
    r->step[0] = 8 + random_below(4);
    for (int i = 0; i < 1024; i++) {
        const uint32_t offset = (uint32_t)(random_below(AREA / 2 / c.size) * c.size);
        memcpy(image + r->src1 + i * 4, &offset, 4);
    }
}

void prepare_gather_datablock(request *r, uint8_t *image)
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

void expect_gather(const request *r, uint8_t *image)
{
    const call c = describe(r);
    for (int step = 0; step < c.steps; step++)
        for (int k = 0; k < c.lanes; k++)
            if (selected(r, &c, step, k))
                memcpy(lane_at(r, &c, image, 0, step, k),
                       image + r->src0 + offset_at(r, image, step * c.lanes + k), (size_t)c.size);
}

void expect_gather_datablock(const request *r, uint8_t *image)
{
    for (int i = 0; i < r->repeat * 8; i++)
        memcpy(image + r->dst + (i / 8 * r->step[0] + i % 8 * r->block[0]) * BLOCK,
               image + r->src0 + offset_at(r, image, i), BLOCK);
}

void prepare_compact(request *r, uint8_t *image)
{
    (void)image;
    if (r->form == FORM_COUNTER)
        r->form = FORM_REPEAT;
    r->extra[0] = r->form == FORM_REPEAT ? random_below(8) : 0;
    r->block[1] = 1 + random_below(2);
}

void expect_compact(const request *r, uint8_t *image)
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

void expect_transpose(const request *r, uint8_t *image)
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

void prepare_bitsort(request *r, uint8_t *image)
{
    const call c = describe(r);
    put_scores(c.f->type, image + r->src0, 32 * r->repeat, c.size);
    for (uint32_t i = 0; i < 32u * (uint32_t)r->repeat; i++)
        memcpy(image + r->src1 + i * 4, &i, 4);
}

void expect_bitsort(const request *r, uint8_t *image)
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

void prepare_mrgsort4(request *r, uint8_t *image)
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

void expect_mrgsort4(const request *r, uint8_t *image)
{
    const int lists = r->extra[5] == 15 ? 4 : r->extra[5] == 7 ? 3 : 2;
    const uint8_t *first = image + r->src0;
    int records = 0;
    for (int i = 0; i < lists; i++)
        records += r->extra[i];
    /* Equal scores keep the order of lists and of what is in them, which is that of the indices. */
    static uint8_t merged[AREA];
    memcpy(merged, first, (size_t)records * RECORD);
    sorted_type = whole_functions[r->function].type;
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
