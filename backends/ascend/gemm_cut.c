/* gemm_cut.c - of the tiles that a cube core holds, those that a product is fastest with. */
#include "gemm_cut.h"

#include <math.h>

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Figures of the time of a cut, in cycles of a core. */

enum {
    SIDE = 16, /* tiles are whole fractals */
    MOST_SIDE = GEMM_L0 / GEMM_STEP_BYTES,
    MOST_PACKET = 4,   /* rows of 512 B: longer ones that begin anywhere cost memory more */
    PRODUCT_START = 9, /* of mmad behind another */
    PRODUCT_WAIT = 70, /* where a barrier must stand between two */
    LOAD_START = 24,   /* of an instruction that fills L0 */
    COPY_START = 300,  /* until the first bytes have come */
    LAUNCH = 4000,     /* of a second kernel */
    OUT_BYTES = 70,    /* a cycle, of copies out of L0C */
    L2_BYTES = 85,     /* a cycle, of copies in */
    HBM_BYTES = 32,    /* a cycle and core, of the memory */
    SUM_BYTES = 40     /* a cycle and cube core, of the second kernel */
};
static const double row_cycles = 3.5; /* of a copy in, at least */

/* Cycles that a step of `count` rows or columns of an operand takes to come to L1. */
static double bring_cycles(const gemm_product *p, int turned, int64_t count, int64_t packet)
{
    if (turned)
        return (double)GEMM_STEP_BYTES / (double)p->size *
               fmax(row_cycles, (double)(count * p->size) / L2_BYTES);
    return (double)count * fmax(row_cycles / (double)packet, (double)GEMM_STEP_BYTES / L2_BYTES);
}

static double step_cycles(const gemm_product *p, const gemm_cut *c, double *bring)
{
    const double fractals = (double)(c->tile_m / SIDE * c->tile_n / SIDE);
    const double multiply =
        fractals * (p->size == 4 ? 8 : 4) + (fractals < 10 ? PRODUCT_WAIT : PRODUCT_START);
    const double load = (double)c->tile_m / 2 + (double)c->tile_n +
                        LOAD_START * (p->b_turned    ? 2
                                      : p->size == 4 ? 3
                                                     : 5);
    *bring = bring_cycles(p, p->a_turned, c->tile_m, c->packet) +
             bring_cycles(p, !p->b_turned, c->tile_n, c->packet);
    return fmax(fmax(multiply, load), *bring);
}

int64_t ascend_gemm_units(const gemm_product *p, const gemm_cut *c)
{
    return ceil_div(p->m, c->tile_m) * ceil_div(p->n, c->tile_n) * c->splits * p->count;
}

double ascend_gemm_cycles(const gemm_product *p, const gemm_cut *c)
{
    const int64_t rounds = ceil_div(ascend_gemm_units(p, c), p->cores);
    const double results = (double)p->m * (double)p->n * (double)p->count;
    const int out = c->splits > 1 || p->finish ? 4 : p->out_bytes;
    double bring;
    const double step = step_cycles(p, c, &bring);
    const double copy_out =
        (double)(c->tile_m * c->tile_n) * fmax(1.0 / 64, (double)out / OUT_BYTES);
    const double work = (double)rounds * fmax((double)c->share * step, copy_out) + copy_out;
    const double once =
        ((double)(p->m + p->n) * (double)(p->k * p->count * p->size) + results * p->out_bytes) /
        (HBM_BYTES * p->cores);
    const double sum =
        c->splits > 1 || p->finish
            ? LAUNCH + results * (double)(4 * c->splits + p->out_bytes) / (SUM_BYTES * p->cores)
            : 0;
    /* neither is hidden wholly behind the other */
    return COPY_START + bring * (double)c->packet + fmax(work, once) + fmin(work, once) / 8 + sum;
}

static void consider(const gemm_product *p, gemm_cut c, double *best, gemm_cut *to)
{
    const int64_t room = GEMM_L1 / (GEMM_PACKETS * GEMM_STEP_BYTES * (c.tile_m + c.tile_n));
    for (c.packet = 1; c.packet <= room && c.packet <= MOST_PACKET; c.packet++) {
        const double found = ascend_gemm_cycles(p, &c);
        if (found < *best) {
            *best = found;
            *to = c;
        }
    }
}

/* All tiles that L0 holds, with k whole or, if there are fewer tiles than cores, shared out. */
gemm_cut ascend_gemm_cut(const gemm_product *p)
{
    const int64_t steps = ceil_div(p->k, GEMM_STEP_BYTES / p->size);
    const int64_t most_m = ceil_div(p->m, SIDE) * SIDE, most_n = ceil_div(p->n, SIDE) * SIDE;
    double best = INFINITY;
    gemm_cut found = {0};
    for (int64_t m = SIDE; m <= most_m && m <= MOST_SIDE; m += SIDE)
        for (int64_t n = SIDE; n <= most_n && n <= MOST_SIDE && m * n * 4 <= GEMM_L0C; n += SIDE) {
            const int64_t tiles = ceil_div(p->m, m) * ceil_div(p->n, n) * p->count;
            const int64_t most = p->whole ? 1 : steps;
            for (int64_t splits = 1; splits <= most && (splits == 1 || tiles * splits <= p->cores);
                 splits++) {
                const int64_t share = ceil_div(steps, splits);
                consider(p, (gemm_cut){m, n, share, ceil_div(steps, share), 0}, &best, &found);
            }
        }
    return found;
}

int64_t ascend_gemm_band(const gemm_product *p, const gemm_cut *c)
{
    const int64_t rows = llround(sqrt((double)(p->cores * c->tile_n) / (double)c->tile_m));
    return rows < 1 ? 1 : rows;
}
