/* inputs.c - what the kernels' inputs are. */
#include <math.h>
#include <string.h>

#include "measures.h"

enum { SIDE = QUESTION_SIDE, B_AT = 16384 };

void fill_ramp(const question *q, float *to)
{
    (void)q;
    for (int i = 0; i < QUESTION_FLOATS; i++)
        to[i] = (float)i;
}

void fill_value(const question *q, float *to)
{
    for (int i = 0; i < QUESTION_FLOATS; i++)
        to[i] = (float)q->extra;
}

/* x and y, 64 of each: x * x + y is 2^-24 if it is rounded once, and 0 if twice. */
void fill_square(const question *q, float *to)
{
    (void)q;
    for (int i = 0; i < 128; i++)
        to[i] = i < 64 ? 1.000244140625f : -1.00048828125f;
}

void fill_nan(const question *q, float *to)
{
    (void)q;
    for (int i = 0; i < 128; i++)
        to[i] = i < 64 ? NAN : 1.0f;
}

/* From 1 to 4. */
void fill_range(const question *q, float *to)
{
    (void)q;
    for (int i = 0; i < 64; i++)
        to[i] = 1 + (float)i * 3 / 64;
}

/* Of a number that a half holds exactly, and normal. */
static uint16_t half_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (x == 0)
        return 0;
    return (uint16_t)((bits >> 16 & 0x8000) | (((bits >> 23 & 0xff) - 112) << 10) |
                      (bits >> 13 & 0x3ff));
}

static int is_f32(const question *q)
{
    return (int)q->extra & 4;
}

static void set(const question *q, float *to, int at, float value)
{
    const uint16_t half = half_of(value);
    if (is_f32(q))
        to[at] = value;
    else
        memcpy((char *)to + 2 * at, &half, sizeof half);
}

/* Element (row, k) of A or B, as it is stored: extra & 1, & 2: k x rows. */
static void set_operand(const question *q, float *to, int is_b, int row, int k, float value)
{
    const int turned = (int)q->extra & (is_b ? 2 : 1), depth = (int)q->more;
    set(q, to + (is_b ? B_AT : 0), turned ? k * SIDE + row : row * depth + k, value);
}

float question_product_b(int row, int k)
{
    return (float)(row * SIDE + k % SIDE - 2 * (k / SIDE) * (k / SIDE));
}

/* A is so many identities side by side. */
void fill_product(const question *q, float *to)
{
    memset(to, 0, QUESTION_BYTES);
    for (int row = 0; row < SIDE; row++)
        for (int k = 0; k < q->more; k++) {
            set_operand(q, to, 0, row, k, k % SIDE == row);
            set_operand(q, to, 1, row, k, question_product_b(row, k));
        }
}

/* A has ones in its first two columns; what of B is not named is 0. */
void fill_halfway(const question *q, float *to)
{
    memset(to, 0, QUESTION_BYTES);
    for (int row = 0; row < SIDE; row++)
        for (int k = 0; k < 2; k++)
            set_operand(q, to, 0, row, k, 1);
    for (int column = 0; column < 2; column++) {
        set_operand(q, to, 1, column, 0, 1);
        set_operand(q, to, 1, column, 1, column ? 0x3p-11f : 0x1p-11f);
    }
}

void fill_negative(const question *q, float *to)
{
    memset(to, 0, QUESTION_BYTES);
    set_operand(q, to, 0, 0, 0, 1);
    set_operand(q, to, 1, 0, 0, -4);
}

/* 2^24, then 1 fifteen times, then -2^24: what is left tells how they were added. */
void fill_order(const question *q, float *to)
{
    memset(to, 0, QUESTION_BYTES);
    for (int k = 0; k <= 16; k++) {
        set_operand(q, to, 0, 0, k, k == 0 ? 4096 : k == 16 ? -4096 : 1);
        set_operand(q, to, 1, 0, k, k % 16 ? 1 : 4096);
    }
}

/* Row i of A begins with 1 + 2^-i. */
void fill_fractions(const question *q, float *to)
{
    memset(to, 0, QUESTION_BYTES);
    for (int row = 0; row < SIDE; row++)
        set_operand(q, to, 0, row, 0, 1 + ldexpf(1, -row));
    set_operand(q, to, 1, 0, 0, 1);
}
