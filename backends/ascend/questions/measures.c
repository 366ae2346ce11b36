/* measures.c - what the kernels' inputs are, and what number is made of what they write or take. */
#include "measures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 32, B_AT = 16384, TIMES = 5 };

static float in[QUESTION_FLOATS], out[QUESTION_FLOATS];

static void run(const question *q)
{
    q->fill(q, in);
    card_put(in);
    card_run(q->n);
    card_get(out);
}

/* ---- inputs ---- */

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

/* A is so many identities side by side, B counts: c[i][j] = 32 j + i - 2 of the second, ... */
static float product_b(int row, int k)
{
    return (float)(row * SIDE + k % SIDE - 2 * (k / SIDE) * (k / SIDE));
}

void fill_product(const question *q, float *to)
{
    memset(to, 0, QUESTION_BYTES);
    for (int row = 0; row < SIDE; row++)
        for (int k = 0; k < q->more; k++) {
            set_operand(q, to, 0, row, k, k % SIDE == row);
            set_operand(q, to, 1, row, k, product_b(row, k));
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

/* ---- what came out ---- */

double measure_first(const question *q)
{
    run(q);
    return isnan(out[0]) ? HUGE_VAL : out[0];
}

double measure_at(const question *q)
{
    run(q);
    return out[(int)q->extra];
}

double measure_where(const question *q)
{
    run(q);
    for (int i = 0; i < QUESTION_FLOATS; i++)
        if (out[i] == (float)q->extra)
            return i;
    return -1;
}

/* 1 for what is neither a number nor infinite, 2 for what is infinite. */
double measure_special(const question *q)
{
    run(q);
    return isnan(out[0]) ? 1 : isinf(out[0]) ? 2 : 0;
}

double measure_wrong(const question *q)
{
    int wrong = 0;
    run(q);
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++) {
            float sum = 0;
            for (int k = i; k < q->more; k += SIDE)
                sum += product_b(j, k);
            wrong += out[i * SIDE + j] != sum;
        }
    return wrong;
}

/* Of two results between two halves: 1 if the first was rounded down, 2 if the second was up. */
double measure_halfway(const question *q)
{
    uint16_t halves[2];
    run(q);
    memcpy(halves, out, sizeof halves);
    return (halves[0] == 0x3c00) + 2 * (halves[1] == 0x3c02);
}

double measure_fraction(const question *q)
{
    int bits = 0;
    run(q);
    for (int i = 1; i < SIDE && i < 24; i++)
        if (out[i * SIDE] == 1 + ldexpf(1, -i))
            bits = i;
    return bits;
}

/* How many bits of 1 / x or 1 / sqrt(x) are right. */
double measure_bits(const question *q)
{
    double worst = 0x1p-24;
    run(q);
    for (int i = 0; i < 64; i++) {
        const double right = q->n == 1 ? 1.0 / in[i] : 1.0 / sqrt(in[i]);
        worst = fmax(worst, fabs(out[i] / right - 1));
    }
    return -log2(worst);
}

/* The error of exp or log, in units of the result's last place. */
double measure_ulp(const question *q)
{
    double worst = 0;
    run(q);
    for (int i = 0; i < 64; i++) {
        const double right = q->n == 0 ? exp(in[i]) : log(in[i]);
        const float next = nextafterf((float)right, INFINITY);
        if ((float)right != 0)
            worst = fmax(worst, fabs(out[i] - right) / (next - (float)right));
    }
    return worst;
}

/* What the second launch sees of what the host has changed behind the first. */
double measure_second(const question *q)
{
    run(q);
    in[0] = 2;
    card_put(in);
    card_run(q->n);
    card_get(out);
    return out[0];
}

/* ---- times ---- */

static double least(int64_t n)
{
    double us = HUGE_VAL;
    for (int i = 0; i < TIMES; i++)
        us = fmin(us, card_run(n));
    return us;
}

/* Cycles of one step of the kernel's loop; down: of the other loop, which a negative n asks for. */
static double step(const question *q, int down)
{
    const int64_t few = down ? -q->n : q->n, more = down ? -q->more : q->more;
    const double us = least(more) - least(few);
    return us * card_clock_mhz() / (double)(q->more - q->n);
}

static void prepare(const question *q)
{
    q->fill(q, in);
    card_put(in);
}

double measure_step(const question *q)
{
    prepare(q);
    return step(q, 0) - q->extra;
}

double measure_step_down(const question *q)
{
    prepare(q);
    return step(q, 1) - q->extra;
}

double measure_rate(const question *q)
{
    prepare(q);
    return q->extra / step(q, 0);
}

double measure_rate_down(const question *q)
{
    prepare(q);
    return q->extra / step(q, 1);
}

double measure_ratio(const question *q)
{
    prepare(q);
    return step(q, 0) / step(q, 1);
}

double measure_more(const question *q)
{
    prepare(q);
    return step(q, 1) - step(q, 0);
}
