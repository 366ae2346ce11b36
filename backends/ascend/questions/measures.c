/* measures.c - what number is made of what the kernels write or take. */
#include "measures.h"

#include <math.h>
#include <string.h>

enum { SIDE = QUESTION_SIDE, TIMES = 5 };

static float in[QUESTION_FLOATS], out[QUESTION_FLOATS];

static void run(const question *q)
{
    q->fill(q, in);
    card_put(in);
    card_run(q->n);
    card_get(out);
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
                sum += question_product_b(j, k);
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
